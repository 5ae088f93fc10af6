// Package nanolith embeds a large language model whose first-class object is the chunk.
//
// A [Chunk] is a span of tokens (a system prompt, a document) that is prefilled once and then used by any number of
// conversations, in any order, at any position. A [Cache] is one conversation's context; [Cache.StreamText] answers
// from it. The package calls libnanolith, which it finds through pkg-config.
//
// Everything may be used from any goroutine and closed in any order: what an open value needs stays alive, and a Close
// during a call takes effect when the call is over. Using a closed value is [ErrClosed]. A value that nobody closes is
// freed by the garbage collector some time after it was last reachable; the memory is the model's, so close what you
// can.
package nanolith

// #cgo pkg-config: nanolith
// #include <nanolith/nanolith.h>
import "C"

import (
	"errors"
	"runtime"
	"unsafe"
)

// Error is what went wrong in the library. errors.Is tells its kind: errors.Is(err, nanolith.ErrOutOfPages).
type Error struct {
	Status Status // the kind
	Text   string // a sentence that names the argument, its value and what was expected
}

func (e *Error) Error() string { return "nanolith: " + e.Text }

// Unwrap gives the status, which is an error by itself.
func (e *Error) Unwrap() error { return e.Status }

// Error is the name in the header, for example "NL_ERROR_OUT_OF_PAGES".
func (s Status) Error() string { return C.GoString(C.nl_status_name(C.nl_status(s))) }

// ErrClosed is what a value that was closed, or never made, gives.
var ErrClosed = errors.New("nanolith: the handle is closed")

// Version is the version of the library at run time, as "0.1.0".
func Version() string { return C.GoString(C.nl_version()) }

// DescribeModel tells what the Hugging Face folder at path is and what of it can be used, without loading weights: lines
// "name: value", for people to read. "model", "tokenizer" and "chat format" are among them, each "supported" (or the
// format's name), or "none", "not supported" or "not usable" and the reason. A part that can't be used is no error.
func DescribeModel(path string) (string, error) {
	text, length := chars(path)
	return fillText(1024, func(buffer *C.char, capacity C.size_t, needed *C.size_t) C.nl_status {
		return C.nl_model_describe(text, length, buffer, capacity, needed)
	})
}

// check makes one call and, if it fails, fetches its sentence, which the library keeps for each thread.
func check(call func() C.nl_status) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	status := call()
	if status == C.NL_OK {
		return nil
	}
	return &Error{Status(status), C.GoString(C.nl_last_error())}
}

// fill calls a function that fills a buffer and tells the size it needs: with room for guess elements first, and again
// with what was asked for. Another goroutine may make it more in between.
func fill[T any](guess int, call func(buffer *T, capacity C.size_t, needed *C.size_t) C.nl_status) ([]T, error) {
	var needed C.size_t
	for buffer := make([]T, guess); ; buffer = make([]T, int(needed)) {
		err := check(func() C.nl_status { return call(first(buffer), C.size_t(len(buffer)), &needed) })
		if err == nil {
			return buffer[:needed], nil
		}
		if !errors.Is(err, ErrBufferTooSmall) || int(needed) <= len(buffer) {
			return nil, err
		}
	}
}

// fillText is fill for text.
func fillText(guess int, call func(buffer *C.char, capacity C.size_t, needed *C.size_t) C.nl_status) (string, error) {
	text, err := fill(guess, func(buffer *byte, capacity C.size_t, needed *C.size_t) C.nl_status {
		return call((*C.char)(unsafe.Pointer(buffer)), capacity, needed)
	})
	return string(text), err
}

// first is where a slice's elements begin; nil where there are none.
func first[T any](slice []T) *T {
	if len(slice) == 0 {
		return nil
	}
	return &slice[0]
}

// chars is a text for the library: where it begins, which is somewhere even for the empty one, and its length.
func chars(text string) (*C.char, C.size_t) {
	bytes := append([]byte(text), 0)
	return (*C.char)(unsafe.Pointer(&bytes[0])), C.size_t(len(text))
}

// ints is an array of tokens for the library.
func ints(tokens []int32) (*C.int32_t, C.size_t) {
	return (*C.int32_t)(unsafe.Pointer(first(tokens))), C.size_t(len(tokens))
}
