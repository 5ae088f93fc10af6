package nanolith

// #include <nanolith/nanolith.h>
import "C"

import "unsafe"

// Tokenizer turns text to tokens and back.
type Tokenizer struct{ handle *handle }

// LoadTokenizer gives the tokenizer of a model folder or GGUF file, without loading weights.
func LoadTokenizer(path string) (*Tokenizer, error) {
	var tokenizer *C.nl_tokenizer
	text, length := chars(path)
	if err := check(func() C.nl_status { return C.nl_tokenizer_load(text, length, &tokenizer) }); err != nil {
		return nil, err
	}
	return newTokenizer(tokenizer, nil), nil
}

func newTokenizer(tokenizer *C.nl_tokenizer, engine *handle) *Tokenizer {
	free := func(pointer unsafe.Pointer) { C.nl_tokenizer_free((*C.nl_tokenizer)(pointer)) }
	return &Tokenizer{newHandle(unsafe.Pointer(tokenizer), free, engine)}
}

// Close drops the tokenizer. It always returns nil, and may be called again.
func (t *Tokenizer) Close() error { return t.handle.close() }

// Encode turns text to tokens. Symbols that the tokenizer file defines (for example "<|user|>") are recognised in the
// text. flags is 0 or a combination of EncodeAddBos and EncodeAddEos.
func (t *Tokenizer) Encode(text string, flags EncodeFlags) ([]int32, error) {
	pointer, err := t.handle.use()
	if err != nil {
		return nil, err
	}
	defer t.handle.done()
	data, length := chars(text)
	return fill(len(text)/2+8, func(tokens *int32, capacity C.size_t, count *C.size_t) C.nl_status {
		return C.nl_tokenizer_encode((*C.nl_tokenizer)(pointer), data, length, C.uint32_t(flags),
			(*C.int32_t)(unsafe.Pointer(tokens)), capacity, count)
	})
}

// Decode turns tokens to text; control tokens give no text, and ill-formed bytes U+FFFD.
func (t *Tokenizer) Decode(tokens []int32) (string, error) {
	pointer, err := t.handle.use()
	if err != nil {
		return "", err
	}
	defer t.handle.done()
	data, count := ints(tokens)
	return fillText(8*len(tokens), func(buffer *C.char, capacity C.size_t, length *C.size_t) C.nl_status {
		return C.nl_tokenizer_decode((*C.nl_tokenizer)(pointer), data, count, buffer, capacity, length)
	})
}

// Query gives a fact about the tokenizer; a special token that the model does not have is -1.
func (t *Tokenizer) Query(fact TokenizerFact) (int64, error) {
	pointer, err := t.handle.use()
	if err != nil {
		return 0, err
	}
	defer t.handle.done()
	var value C.int64_t
	err = check(func() C.nl_status {
		return C.nl_tokenizer_query((*C.nl_tokenizer)(pointer), C.int32_t(fact), &value)
	})
	return int64(value), err
}

// Find gives the token written exactly so in the vocabulary (for example "<|user|>").
func (t *Tokenizer) Find(piece string) (int32, error) {
	pointer, err := t.handle.use()
	if err != nil {
		return 0, err
	}
	defer t.handle.done()
	var token C.int32_t
	text, length := chars(piece)
	err = check(func() C.nl_status {
		return C.nl_tokenizer_find((*C.nl_tokenizer)(pointer), text, length, &token)
	})
	return int32(token), err
}

// Piece is the vocabulary's spelling of a token; of byte tokens "<0x41>", of control tokens their name.
func (t *Tokenizer) Piece(token int32) (string, error) {
	pointer, err := t.handle.use()
	if err != nil {
		return "", err
	}
	defer t.handle.done()
	return fillText(32, func(buffer *C.char, capacity C.size_t, length *C.size_t) C.nl_status {
		return C.nl_tokenizer_piece((*C.nl_tokenizer)(pointer), C.int32_t(token), buffer, capacity, length)
	})
}
