package nanolith

// #include <stddef.h>
// #include <stdint.h>
import "C"

import (
	"runtime/cgo"
	"unsafe"
)

// progressState is a progress function, and how it ended the creation of its engine.
type progressState struct {
	call     func(done float64) error
	err      error
	panicked bool
	panic    any
}

// nanolithGoLog is called by the library, with the number of the engine's log function. No panic may leave.
//
//export nanolithGoLog
func nanolithGoLog(log unsafe.Pointer, severity C.int32_t, message *C.char, length C.size_t) {
	defer func() { _ = recover() }()
	call := cgo.Handle(uintptr(log)).Value().(func(Severity, string))
	call(Severity(severity), C.GoStringN(message, C.int(length)))
}

// nanolithGoProgress is called by nl_engine_create, with the number of a progressState. No panic may leave.
//
//export nanolithGoProgress
func nanolithGoProgress(progress unsafe.Pointer, done C.double) (cancels C.int32_t) {
	state := cgo.Handle(uintptr(progress)).Value().(*progressState)
	state.panicked, cancels = true, 1
	defer func() {
		if state.panicked {
			state.panic = recover()
		}
	}()
	state.err = state.call(float64(done))
	state.panicked = false
	if state.err == nil {
		cancels = 0
	}
	return cancels
}
