package nanolith

// #include <stddef.h>
// #include <stdint.h>
import "C"

import (
	"runtime/cgo"
	"sync"
	"unsafe"
)

// function is a function of the program's that the library calls, and how it ended what it was called for.
type function[F any] struct {
	call F

	mutex    sync.Mutex // of the fields below
	err      error
	panicked bool
	panic    any
}

type (
	progressState = function[func(done float64) error]
	logitsState   = function[func(tokens []int32, logits []float32) error]
)

// run calls body, which calls the program's function, and returns what the library expects of a callback: 0 to go on, 1
// to end. If body returns an error or panics, run stores that, and the method ended returns it later: a Go panic must
// not unwind through the library's C++ frames.
func (f *function[F]) run(body func() error) (ends C.int32_t) {
	var err error
	panicked := true
	defer func() {
		var problem any
		if panicked {
			problem = recover()
		}
		f.mutex.Lock()
		defer f.mutex.Unlock()
		if panicked || err != nil {
			f.err, f.panicked, f.panic, ends = err, panicked, problem, 1
		}
	}()
	err = body()
	panicked = false
	return 0
}

// ended tells how it ended what it was called for: by an error, by a panic, or not at all.
func (f *function[F]) ended() (err error, panicked bool, problem any) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.err, f.panicked, f.panic
}

// nanolithGoLog is called by the library, with the number of the engine's log function. No panic may leave.
//
//export nanolithGoLog
func nanolithGoLog(log unsafe.Pointer, severity C.int32_t, message *C.char, length C.size_t) {
	defer func() { _ = recover() }()
	call := cgo.Handle(uintptr(log)).Value().(func(Severity, string))
	call(Severity(severity), C.GoStringN(message, C.int(length)))
}

// nanolithGoProgress is called by nl_engine_create, with the number of a progressState.
//
//export nanolithGoProgress
func nanolithGoProgress(progress unsafe.Pointer, done C.double) C.int32_t {
	state := cgo.Handle(uintptr(progress)).Value().(*progressState)
	return state.run(func() error { return state.call(float64(done)) })
}

// nanolithGoLogits is called by the thread of an engine, with the number of a logitsState.
//
//export nanolithGoLogits
func nanolithGoLogits(function unsafe.Pointer, tokens *C.int32_t, numTokens C.size_t, logits *C.float,
	numLogits C.size_t) C.int32_t {
	state := cgo.Handle(uintptr(function)).Value().(*logitsState)
	return state.run(func() error {
		return state.call(unsafe.Slice((*int32)(tokens), int(numTokens)), unsafe.Slice((*float32)(logits), int(numLogits)))
	})
}
