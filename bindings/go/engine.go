package nanolith

// #include <nanolith/nanolith.h>
import "C"

import "unsafe"

// Engine is a loaded model and its page pool. It lives until it is closed and so is every chunk, cache, generation
// and tokenizer made from it.
type Engine struct{ handle *handle }

// NewEngine loads the model at path, a Hugging Face folder or a GGUF file, and reserves the page pool. options may be nil.
// It blocks while the weights load. The weight files stay mapped while the engine lives: do not truncate them. Where
// options.Progress gives an error, that is the error here.
func NewEngine(path string, options *EngineOptions) (*Engine, error) {
	if options == nil {
		options = new(EngineOptions)
	}
	native, err := newOptions(OptionsEngine, options)
	if err != nil {
		return nil, err
	}
	defer C.nl_options_free(native)
	var functions callbacks
	err = functions.set(native, options)
	defer func() { drop(functions.progress) }()
	var engine *C.nl_engine
	text, length := chars(path)
	if err == nil {
		err = check(func() C.nl_status { return C.nl_engine_create(text, length, native, &engine) })
	}
	log := functions.log
	if err != nil {
		drop(log)
		problem, panicked, value := functions.state.ended()
		if panicked {
			panic(value)
		}
		if problem != nil {
			err = problem
		}
		return nil, err
	}
	free := func(pointer unsafe.Pointer) {
		C.nl_engine_free((*C.nl_engine)(pointer))
		drop(log)
	}
	return &Engine{newHandle(unsafe.Pointer(engine), free, nil)}, nil
}

// Tenant gives the same engine for one of several parties that must learn nothing of each other, named by salt (1 to
// 4096 bytes): its chunks and caches are found again by engines of the same salt alone. Chunks of the engine itself may
// stand in every tenant's caches. It is to be closed on its own.
func (e *Engine) Tenant(salt string) (*Engine, error) {
	pointer, err := e.handle.use()
	if err != nil {
		return nil, err
	}
	defer e.handle.done()
	var tenant *C.nl_engine
	text, length := chars(salt)
	err = check(func() C.nl_status { return C.nl_engine_tenant((*C.nl_engine)(pointer), text, length, &tenant) })
	if err != nil {
		return nil, err
	}
	free := func(pointer unsafe.Pointer) { C.nl_engine_free((*C.nl_engine)(pointer)) }
	return &Engine{newHandle(unsafe.Pointer(tenant), free, e.handle)}, nil
}

// Close drops the engine. It always returns nil, and may be called again.
func (e *Engine) Close() error { return e.handle.close() }

// Cancel cancels all calls and generations that are under way on the engine: calls end with ErrCancelled, generations
// with EndCancelled, when the step that runs now is over. What is asked for afterwards is not concerned. It returns at
// once.
func (e *Engine) Cancel() error {
	pointer, err := e.handle.use()
	if err != nil {
		return err
	}
	defer e.handle.done()
	return check(func() C.nl_status { return C.nl_engine_cancel((*C.nl_engine)(pointer)) })
}

// Query gives a fact about the engine.
func (e *Engine) Query(fact EngineFact) (int64, error) {
	pointer, err := e.handle.use()
	if err != nil {
		return 0, err
	}
	defer e.handle.done()
	var value C.int64_t
	err = check(func() C.nl_status {
		return C.nl_engine_query((*C.nl_engine)(pointer), C.int32_t(fact), &value)
	})
	return int64(value), err
}

// Describe gives a JSON object with all facts about the engine, under their names in lower case, and with "tiers", an
// array of the places where it keeps chunks: the chunks, bytes, hits and moves of each.
func (e *Engine) Describe() (string, error) {
	pointer, err := e.handle.use()
	if err != nil {
		return "", err
	}
	defer e.handle.done()
	return fillText(8192, func(buffer *C.char, capacity C.size_t, needed *C.size_t) C.nl_status {
		return C.nl_engine_describe((*C.nl_engine)(pointer), buffer, capacity, needed)
	})
}

// Metrics gives what the engine has counted, in Prometheus' text format: pages, chunks by tier, requests, and
// histograms of steps and of generations. Not for a tenant's handle.
func (e *Engine) Metrics() (string, error) {
	pointer, err := e.handle.use()
	if err != nil {
		return "", err
	}
	defer e.handle.done()
	return fillText(16384, func(buffer *C.char, capacity C.size_t, needed *C.size_t) C.nl_status {
		return C.nl_engine_metrics((*C.nl_engine)(pointer), buffer, capacity, needed)
	})
}

// Device is the device in words, for example "cpu (2 threads)".
func (e *Engine) Device() (string, error) {
	pointer, err := e.handle.use()
	if err != nil {
		return "", err
	}
	defer e.handle.done()
	return fillText(128, func(buffer *C.char, capacity C.size_t, needed *C.size_t) C.nl_status {
		return C.nl_engine_device((*C.nl_engine)(pointer), buffer, capacity, needed)
	})
}

// IsEndToken tells whether token ends an answer by the model's files.
func (e *Engine) IsEndToken(token int32) (bool, error) {
	pointer, err := e.handle.use()
	if err != nil {
		return false, err
	}
	defer e.handle.done()
	var isEnd C.int32_t
	err = check(func() C.nl_status {
		return C.nl_engine_is_end_token((*C.nl_engine)(pointer), C.int32_t(token), &isEnd)
	})
	return isEnd != 0, err
}

// Tokenizer is the model's tokenizer; ErrNotFound where its files have none.
func (e *Engine) Tokenizer() (*Tokenizer, error) {
	pointer, err := e.handle.use()
	if err != nil {
		return nil, err
	}
	defer e.handle.done()
	var tokenizer *C.nl_tokenizer
	err = check(func() C.nl_status { return C.nl_engine_tokenizer((*C.nl_engine)(pointer), &tokenizer) })
	if err != nil {
		return nil, err
	}
	return newTokenizer(tokenizer, e.handle), nil
}

// LoadChunk gives the chunk of a file that [Chunk.Save] wrote, with nothing computed. A file that is damaged or of
// another model is StatusBadFile.
func (e *Engine) LoadChunk(path string) (*Chunk, error) {
	pointer, err := e.handle.use()
	if err != nil {
		return nil, err
	}
	defer e.handle.done()
	var chunk *C.nl_chunk
	text, length := chars(path)
	err = check(func() C.nl_status { return C.nl_chunk_load((*C.nl_engine)(pointer), text, length, &chunk) })
	if err != nil {
		return nil, err
	}
	return newChunk(chunk, e.handle), nil
}

// LoadCache gives the conversation of a file that [Cache.Save] wrote: it goes on as if it had never been away.
func (e *Engine) LoadCache(path string) (*Cache, error) {
	pointer, err := e.handle.use()
	if err != nil {
		return nil, err
	}
	defer e.handle.done()
	var cache *C.nl_cache
	text, length := chars(path)
	err = check(func() C.nl_status { return C.nl_cache_load((*C.nl_engine)(pointer), text, length, &cache) })
	if err != nil {
		return nil, err
	}
	return newCache(cache, e.handle), nil
}

// Prefill computes tokens (at least one) into a chunk, with the chunks before in view, in that order. level is its
// place in the cascade; when pages run short, chunks that nobody holds are evicted from LevelQuery first. A chunk that is
// still in the store is returned again at no cost. Blocks until it is computed.
func (e *Engine) Prefill(tokens []int32, level Level, before ...*Chunk) (*Chunk, error) {
	pointer, err := e.handle.use()
	if err != nil {
		return nil, err
	}
	defer e.handle.done()
	chunks, done, err := useAll(chunkHandles(before))
	if err != nil {
		return nil, err
	}
	defer done()
	var chunk *C.nl_chunk
	data, count := ints(tokens)
	err = check(func() C.nl_status {
		return C.nl_chunk_prefill((*C.nl_engine)(pointer), data, count, C.int32_t(level),
			(**C.nl_chunk)(unsafe.Pointer(first(chunks))), C.size_t(len(chunks)), &chunk)
	})
	if err != nil {
		return nil, err
	}
	return newChunk(chunk, e.handle), nil
}

// NewCache makes a context that begins with chunks in this order; the same chunk may stand in it twice. options may be
// nil. Blocks only where exact composition must compute.
func (e *Engine) NewCache(options *CacheOptions, chunks ...*Chunk) (*Cache, error) {
	pointer, err := e.handle.use()
	if err != nil {
		return nil, err
	}
	defer e.handle.done()
	pointers, done, err := useAll(chunkHandles(chunks))
	if err != nil {
		return nil, err
	}
	defer done()
	if options == nil {
		options = new(CacheOptions)
	}
	native, err := newOptions(OptionsCache, options)
	if err != nil {
		return nil, err
	}
	defer C.nl_options_free(native)
	var cache *C.nl_cache
	err = check(func() C.nl_status {
		return C.nl_cache_create((*C.nl_engine)(pointer), native,
			(**C.nl_chunk)(unsafe.Pointer(first(pointers))), C.size_t(len(pointers)), &cache)
	})
	if err != nil {
		return nil, err
	}
	return newCache(cache, e.handle), nil
}
