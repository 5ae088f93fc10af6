package nanolith

// #include <nanolith/nanolith.h>
import "C"

import (
	"sync"
	"unsafe"
)

// TextStream turns tokens into text one by one and never splits a UTF-8 character: bytes of an unfinished one wait for
// the next token. Goroutines that share a stream take turns.
type TextStream struct {
	handle *handle
	turn   sync.Mutex // the library's streams are not for two threads at once
}

// NewTextStream gives a stream that has seen no token. It keeps its tokenizer alive.
func (t *Tokenizer) NewTextStream() (*TextStream, error) {
	pointer, err := t.handle.use()
	if err != nil {
		return nil, err
	}
	defer t.handle.done()
	var stream *C.nl_text_stream
	err = check(func() C.nl_status { return C.nl_text_stream_create((*C.nl_tokenizer)(pointer), &stream) })
	if err != nil {
		return nil, err
	}
	free := func(pointer unsafe.Pointer) { C.nl_text_stream_free((*C.nl_text_stream)(pointer)) }
	return &TextStream{handle: newHandle(unsafe.Pointer(stream), free, t.handle)}, nil
}

// Close drops the stream. It always returns nil, and may be called again.
func (s *TextStream) Close() error { return s.handle.close() }

// Push gives the text that token completes, perhaps none.
func (s *TextStream) Push(token int32) (string, error) {
	pointer, err := s.handle.use()
	if err != nil {
		return "", err
	}
	defer s.handle.done()
	s.turn.Lock()
	defer s.turn.Unlock()
	return fillText(64, func(buffer *C.char, capacity C.size_t, length *C.size_t) C.nl_status {
		return C.nl_text_stream_push((*C.nl_text_stream)(pointer), C.int32_t(token), buffer, capacity, length)
	})
}

// Finish gives what still waits, as U+FFFD where it is ill-formed; the stream is then as new.
func (s *TextStream) Finish() (string, error) {
	pointer, err := s.handle.use()
	if err != nil {
		return "", err
	}
	defer s.handle.done()
	s.turn.Lock()
	defer s.turn.Unlock()
	return fillText(64, func(buffer *C.char, capacity C.size_t, length *C.size_t) C.nl_status {
		return C.nl_text_stream_finish((*C.nl_text_stream)(pointer), buffer, capacity, length)
	})
}
