// Package nanolith embeds a large language model whose first-class object is the chunk.
//
// A [Chunk] is a span of tokens (a system prompt, a document) that is prefilled once and then used by any number of
// conversations, in any order, at any position. A [Cache] is one conversation's context; [Cache.Generate] has the engine
// answer from it. The package calls libnanolith, which it finds through pkg-config.
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

	// Numbers that the error may have, -1 where it doesn't: which element of the list that was given (the cache of
	// DecodeStep, say); what the call needed (pages of ErrOutOfPages, tokens of ErrContextFull, bytes of ErrOutOfMemory),
	// and what there was of it.
	Index, Needed, Available int64
}

func (e *Error) Error() string { return "nanolith: " + e.Text }

// Unwrap gives the status, which is an error by itself.
func (e *Error) Unwrap() error { return e.Status }

// Error is the name in the header, for example "NL_ERROR_OUT_OF_PAGES".
func (s Status) Error() string { return C.GoString(C.nl_status_name(C.nl_status(s))) }

// ErrClosed is what a value that was closed, or never made, gives.
var ErrClosed = errors.New("nanolith: the handle is closed")

// Version is the version of the library at run time, as "0.2.0".
func Version() string { return C.GoString(C.nl_version()) }

// VersionNumber is the same as one number, to compare: 200 is 0.2.0, 10203 is 1.2.3.
func VersionNumber() int { return int(C.nl_version_number()) }

// DescribeModel tells what the Hugging Face folder or GGUF file at path is and what of it can be used, without loading
// weights: lines "name: value", for people to read, or a JSON object with the same names. "model", "tokenizer" and "chat
// format" are among them, each "supported" (or the format's name), or "none", "not supported" or "not usable" and the
// reason. A part that can't be used is no error.
func DescribeModel(path string, format DescribeFormat) (string, error) {
	text, length := chars(path)
	return fillText(1024, func(buffer *C.char, capacity C.size_t, needed *C.size_t) C.nl_status {
		return C.nl_model_describe(text, length, C.int32_t(format), buffer, capacity, needed)
	})
}

// DescribeOptions gives the options of a kind as a JSON array of objects: "name", "key", "type", "least", "most",
// "default" and "doc".
func DescribeOptions(kind OptionsKind) (string, error) {
	return fillText(4096, func(buffer *C.char, capacity C.size_t, needed *C.size_t) C.nl_status {
		return C.nl_option_describe(C.int32_t(kind), buffer, capacity, needed)
	})
}

// DescribeFacts gives the facts of a kind as a JSON array of objects: "name", "key", "unit" and "doc".
func DescribeFacts(kind FactsKind) (string, error) {
	return fillText(4096, func(buffer *C.char, capacity C.size_t, needed *C.size_t) C.nl_status {
		return C.nl_fact_describe(C.int32_t(kind), buffer, capacity, needed)
	})
}

// Bounds are what an option may be, and what it is where nobody sets it (of lists 0, which means nothing).
type Bounds[T int64 | float64] struct{ Least, Most, Default T }

// OptionKey is a key of any kind of options.
type OptionKey interface {
	EngineOption | CacheOption | SamplingOption | GenerationOption
}

// IntBounds gives the bounds of an option that takes integers: IntBounds(OptionPageSize).
func IntBounds[K OptionKey](option K) (Bounds[int64], error) {
	var least, most, standard C.int64_t
	err := check(func() C.nl_status { return C.nl_option_bounds_int(C.int32_t(option), &least, &most, &standard) })
	return Bounds[int64]{int64(least), int64(most), int64(standard)}, err
}

// FloatBounds gives the bounds of an option that takes floats: FloatBounds(OptionTopP).
func FloatBounds[K OptionKey](option K) (Bounds[float64], error) {
	var least, most, standard C.double
	err := check(func() C.nl_status { return C.nl_option_bounds_float(C.int32_t(option), &least, &most, &standard) })
	return Bounds[float64]{float64(least), float64(most), float64(standard)}, err
}

// check makes one call and, if it fails, fetches its sentence, which the library keeps for each thread.
func check(call func() C.nl_status) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	status := call()
	if status == C.NL_OK {
		return nil
	}
	return &Error{Status(status), C.GoString(C.nl_last_error()), detail(DetailIndex), detail(DetailNeeded),
		detail(DetailAvailable)}
}

// detail is a number of the latest error of this thread, or -1.
func detail(detail Detail) int64 {
	value := C.int64_t(-1)
	C.nl_last_error_detail(C.int32_t(detail), &value)
	return int64(value)
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
