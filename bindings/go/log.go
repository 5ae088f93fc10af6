package nanolith

// #include <stddef.h>
// #include <stdint.h>
import "C"

import (
	"runtime/cgo"
	"unsafe"
)

// nanolithGoLog is called by the library, with the number of the engine's log function. No panic may leave.
//
//export nanolithGoLog
func nanolithGoLog(log unsafe.Pointer, severity C.int32_t, message *C.char, length C.size_t) {
	defer func() { _ = recover() }()
	call := cgo.Handle(uintptr(log)).Value().(func(Severity, string))
	call(Severity(severity), C.GoStringN(message, C.int(length)))
}
