package nanolith

// #include <nanolith/nanolith.h>
import "C"

import (
	"context"
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

// TextPieces is an answer's text, piece by piece; see [Cache.StreamText]. It is for one goroutine.
type TextPieces struct {
	cache      *Cache
	stream     *TextStream
	tokensLeft int
	text       string
	err        error
	done       bool
}

// StreamText draws tokens until the model ends its answer, at most maxTokens, and gives their text piece by piece:
//
//	pieces := cache.StreamText(tokenizer, 100)
//	for pieces.Next(ctx) {
//		fmt.Print(pieces.Text())
//	}
//	if err := pieces.Err(); err != nil { ... }
//
// Each piece is computed when it is asked for.
func (c *Cache) StreamText(tokenizer *Tokenizer, maxTokens int) *TextPieces {
	stream, err := tokenizer.NewTextStream()
	return &TextPieces{cache: c, stream: stream, tokensLeft: maxTokens, err: err, done: err != nil}
}

// Next computes the next piece, and tells whether there is one. It looks at ctx before each token; once ctx is done, so
// is the answer, and Err is ctx's error. The cache keeps the tokens drawn so far.
func (p *TextPieces) Next(ctx context.Context) bool {
	p.text = ""
	for !p.done && p.text == "" {
		if err := ctx.Err(); err != nil {
			p.end(err)
			break
		}
		text, more, err := p.step()
		if err == nil && !more {
			text, err = p.stream.Finish()
		}
		p.text = text
		if err != nil || !more {
			p.end(err)
		}
	}
	return p.text != ""
}

// Text is the piece that Next computed.
func (p *TextPieces) Text() string { return p.text }

// Err is the error that ended the answer, or nil.
func (p *TextPieces) Err() error { return p.err }

func (p *TextPieces) end(err error) {
	p.done = true
	p.err = err
	p.stream.Close()
}

// step gives the text of one more token; more is false where there is none.
func (p *TextPieces) step() (text string, more bool, err error) {
	if p.tokensLeft <= 0 {
		return "", false, nil
	}
	p.tokensLeft--
	tokens, err := DecodeStep(p.cache)
	if err != nil {
		return "", false, err
	}
	isEnd, err := p.cache.isEndToken(tokens[0])
	if err != nil || isEnd {
		return "", false, err
	}
	text, err = p.stream.Push(tokens[0])
	return text, true, err
}

// isEndToken asks the engine, which an open cache keeps alive even where it was closed.
func (c *Cache) isEndToken(token int32) (bool, error) {
	if _, err := c.handle.use(); err != nil {
		return false, err
	}
	defer c.handle.done()
	return isEndToken(c.handle.parent.pointer, token)
}
