package nanolith

// #include <nanolith/nanolith.h>
import "C"

import "unsafe"

// Cache is one conversation's context: chunks and a private tail. Made by [Engine.NewCache]. Calls on the same cache
// take turns; while it is generating, most of them give ErrBusy.
type Cache struct{ handle *handle }

func newCache(cache *C.nl_cache, engine *handle) *Cache {
	free := func(pointer unsafe.Pointer) { C.nl_cache_free((*C.nl_cache)(pointer)) }
	return &Cache{newHandle(unsafe.Pointer(cache), free, engine)}
}

// Close ends the conversation: private pages go back, each chunk loses one user. A generation upon it goes on. It always
// returns nil, and may be called again.
func (c *Cache) Close() error { return c.handle.close() }

// call uses the cache for one call of the library.
func (c *Cache) call(body func(cache *C.nl_cache) C.nl_status) error {
	pointer, err := c.handle.use()
	if err != nil {
		return err
	}
	defer c.handle.done()
	return check(func() C.nl_status { return body((*C.nl_cache)(pointer)) })
}

// Extend appends tokens and computes them.
func (c *Cache) Extend(tokens []int32) error {
	data, count := ints(tokens)
	return c.call(func(cache *C.nl_cache) C.nl_status { return C.nl_cache_extend(cache, data, count) })
}

// Fork gives a second cache with the same context and sampling options. Full pages are shared.
func (c *Cache) Fork() (*Cache, error) {
	pointer, err := c.handle.use()
	if err != nil {
		return nil, err
	}
	defer c.handle.done()
	var fork *C.nl_cache
	if err := check(func() C.nl_status { return C.nl_cache_fork((*C.nl_cache)(pointer), &fork) }); err != nil {
		return nil, err
	}
	return newCache(fork, c.handle.parent), nil
}

// Save saves the conversation with its chunks, keys and values to the file at path, for [Engine.LoadCache]. The file is
// whole or not there.
func (c *Cache) Save(path string) error {
	text, length := chars(path)
	return c.call(func(cache *C.nl_cache) C.nl_status { return C.nl_cache_save(cache, text, length) })
}

// Truncate keeps the first numTokens tokens, at most what the cache holds, and forgets the rest.
func (c *Cache) Truncate(numTokens int) error {
	return c.call(func(cache *C.nl_cache) C.nl_status { return C.nl_cache_truncate(cache, C.size_t(numTokens)) })
}

// Tokens gives all tokens of the context, chunks first.
func (c *Cache) Tokens() ([]int32, error) {
	pointer, err := c.handle.use()
	if err != nil {
		return nil, err
	}
	defer c.handle.done()
	return fill(256, func(tokens *int32, capacity C.size_t, count *C.size_t) C.nl_status {
		return C.nl_cache_tokens((*C.nl_cache)(pointer), (*C.int32_t)(unsafe.Pointer(tokens)), capacity, count)
	})
}

// Logits gives the logits for the token after the last one. The cache must not be empty.
func (c *Cache) Logits() ([]float32, error) {
	pointer, err := c.handle.use()
	if err != nil {
		return nil, err
	}
	defer c.handle.done()
	return fill(0, func(logits *float32, capacity C.size_t, count *C.size_t) C.nl_status {
		return C.nl_cache_logits((*C.nl_cache)(pointer), (*C.float)(unsafe.Pointer(logits)), capacity, count)
	})
}

// Score appends tokens, computes them, and gives the log-probability of each after all that stands before it, of the
// model's own distribution. The first token of an empty cache has none: NaN.
func (c *Cache) Score(tokens []int32) ([]float32, error) {
	pointer, err := c.handle.use()
	if err != nil {
		return nil, err
	}
	defer c.handle.done()
	data, numTokens := ints(tokens)
	return fill(len(tokens), func(logprobs *float32, capacity C.size_t, count *C.size_t) C.nl_status {
		return C.nl_cache_score((*C.nl_cache)(pointer), data, numTokens, (*C.float)(unsafe.Pointer(logprobs)), capacity,
			count)
	})
}

// ScoreNext appends tokens, computes them, and gives the log-probability of each candidate as the token after them, of
// the model's own distribution. A reranker that answers yes or no has both in one call.
func (c *Cache) ScoreNext(tokens, candidates []int32) ([]float32, error) {
	pointer, err := c.handle.use()
	if err != nil {
		return nil, err
	}
	defer c.handle.done()
	data, numTokens := ints(tokens)
	following, numCandidates := ints(candidates)
	return fill(len(candidates), func(logprobs *float32, capacity C.size_t, count *C.size_t) C.nl_status {
		return C.nl_cache_score_next((*C.nl_cache)(pointer), data, numTokens, following, numCandidates,
			(*C.float)(unsafe.Pointer(logprobs)), capacity, count)
	})
}

// Embed appends tokens, computes them, and gives hidden states after the model's final norm: with PoolingLast the last
// token's (of the cache, where there are no tokens), with PoolingMean the mean of those of the tokens, and with
// PoolingNone one vector after the other. flags is 0 or EmbedNormalized.
func (c *Cache) Embed(tokens []int32, pooling Pooling, flags EmbedFlags) ([]float32, error) {
	pointer, err := c.handle.use()
	if err != nil {
		return nil, err
	}
	defer c.handle.done()
	data, numTokens := ints(tokens)
	return fill(0, func(vectors *float32, capacity C.size_t, count *C.size_t) C.nl_status {
		return C.nl_cache_embed((*C.nl_cache)(pointer), data, numTokens, C.int32_t(pooling), C.uint32_t(flags),
			(*C.float)(unsafe.Pointer(vectors)), capacity, count)
	})
}

// Query gives a fact about the cache.
func (c *Cache) Query(fact CacheFact) (int64, error) {
	var value C.int64_t
	err := c.call(func(cache *C.nl_cache) C.nl_status { return C.nl_cache_query(cache, C.int32_t(fact), &value) })
	return int64(value), err
}

// Describe gives a JSON object with all facts about the cache, under their names in lower case ("private_pages").
func (c *Cache) Describe() (string, error) {
	pointer, err := c.handle.use()
	if err != nil {
		return "", err
	}
	defer c.handle.done()
	return fillText(1024, func(buffer *C.char, capacity C.size_t, needed *C.size_t) C.nl_status {
		return C.nl_cache_describe((*C.nl_cache)(pointer), buffer, capacity, needed)
	})
}

// SetSampling sets how this cache draws from now on.
func (c *Cache) SetSampling(options SamplingOptions) error {
	native, err := newOptions(OptionsSampling, &options)
	if err != nil {
		return err
	}
	defer C.nl_options_free(native)
	return c.call(func(cache *C.nl_cache) C.nl_status { return C.nl_cache_set_sampling(cache, native) })
}

// Cancel cancels what is under way on this cache: a call ends with ErrCancelled, a generation with EndCancelled, when the
// step that runs now is over. Where nothing is under way it does nothing. It returns at once.
func (c *Cache) Cancel() error {
	return c.call(func(cache *C.nl_cache) C.nl_status { return C.nl_cache_cancel(cache) })
}

// DecodeStep is for programs that choose tokens themselves or bring their own loop; all others start generations. It
// draws one token for each of caches in one batch, and appends it to its cache. The caches must be different, of one
// engine, and not empty. Either all of them advance or, on an error, none.
func DecodeStep(caches ...*Cache) ([]int32, error) {
	handles := make([]*handle, len(caches))
	for i, cache := range caches {
		if cache != nil {
			handles[i] = cache.handle
		}
	}
	pointers, done, err := useAll(handles)
	if err != nil {
		return nil, err
	}
	defer done()
	tokens := make([]int32, len(caches))
	data, count := ints(tokens)
	if err := check(func() C.nl_status {
		return C.nl_decode_step((**C.nl_cache)(unsafe.Pointer(first(pointers))), count, data)
	}); err != nil {
		return nil, err
	}
	return tokens, nil
}
