package nanolith

/*
#include <nanolith/nanolith.h>

void nanolithGoLog(void *user_data, int32_t severity, char *message, size_t length);

// The user data is a number, never a pointer of Go's.
static nl_status nanolith_set_go_log(nl_engine_options *options, uintptr_t log) {
    return nl_engine_options_set_log(options, (nl_log_callback)nanolithGoLog, (void *)log);
}
*/
import "C"

import "runtime/cgo"

// EngineOptions says how to load a model. The zero value of a field means the library's default.
type EngineOptions struct {
	// Device is "auto" (default: CUDA where there is a GPU and its backend, else the CPU), "cpu", "cuda" or "cuda:1".
	Device string
	// Dtype is the number format of weights, activations and the key-value cache.
	Dtype Dtype
	// PageSize is the number of tokens a page: a power of two from 16 to 256. Default 64.
	PageSize int32
	// NumPages is the size of the pool. The default comes from the model and the memory that is free.
	NumPages int64
	// MaxContext is the longest context of a cache in tokens. Default: the model's.
	MaxContext int64
	// MaxBatchTokens is the most tokens computed in one step, 1 to 65536. Default 512.
	MaxBatchTokens int32
	// Threads is the number of CPU threads, 1 to 1024. Default: the cores that the process may use.
	Threads int32
	// Log receives log lines, on any thread. It must not use this package; a panic in it is caught and ignored.
	Log func(severity Severity, message string)
}

// native makes the library's options. The second result stands for the log function while an engine lives; 0: none.
func (o *EngineOptions) native() (*C.nl_engine_options, cgo.Handle, error) {
	var options *C.nl_engine_options
	if err := check(func() C.nl_status { return C.nl_engine_options_create(&options) }); err != nil {
		return nil, 0, err
	}
	if o == nil {
		return options, 0, nil
	}
	var log cgo.Handle
	if o.Log != nil {
		log = cgo.NewHandle(o.Log)
	}
	device, length := chars(o.Device)
	for _, set := range []struct {
		given bool
		call  func() C.nl_status
	}{
		{o.Device != "", func() C.nl_status { return C.nl_engine_options_set_device(options, device, length) }},
		{o.Dtype != 0, func() C.nl_status { return C.nl_engine_options_set_dtype(options, C.int32_t(o.Dtype)) }},
		{o.PageSize != 0, func() C.nl_status {
			return C.nl_engine_options_set_page_size(options, C.int32_t(o.PageSize))
		}},
		{o.NumPages != 0, func() C.nl_status {
			return C.nl_engine_options_set_num_pages(options, C.int64_t(o.NumPages))
		}},
		{o.MaxContext != 0, func() C.nl_status {
			return C.nl_engine_options_set_max_context(options, C.int64_t(o.MaxContext))
		}},
		{o.MaxBatchTokens != 0, func() C.nl_status {
			return C.nl_engine_options_set_max_batch_tokens(options, C.int32_t(o.MaxBatchTokens))
		}},
		{o.Threads != 0, func() C.nl_status {
			return C.nl_engine_options_set_threads(options, C.int32_t(o.Threads))
		}},
		{o.Log != nil, func() C.nl_status { return C.nanolith_set_go_log(options, C.uintptr_t(log)) }},
	} {
		if !set.given {
			continue
		}
		if err := check(set.call); err != nil {
			C.nl_engine_options_free(options)
			dropLog(log)
			return nil, 0, err
		}
	}
	return options, log, nil
}

func dropLog(log cgo.Handle) {
	if log != 0 {
		log.Delete()
	}
}

// CacheOptions says how a cache composes its chunks. The zero value is the library's default.
type CacheOptions struct {
	// Composition is ComposeExact (default) or ComposeIndependent.
	Composition Composition
}

func (o *CacheOptions) native() (*C.nl_cache_options, error) {
	var options *C.nl_cache_options
	if err := check(func() C.nl_status { return C.nl_cache_options_create(&options) }); err != nil {
		return nil, err
	}
	if o == nil || o.Composition == 0 {
		return options, nil
	}
	if err := check(func() C.nl_status {
		return C.nl_cache_options_set_composition(options, C.int32_t(o.Composition))
	}); err != nil {
		C.nl_cache_options_free(options)
		return nil, err
	}
	return options, nil
}

// SamplingOptions says how to draw tokens: greedily, unless a temperature is set. The zero value of a field means the
// library's default.
type SamplingOptions struct {
	// Temperature is 0 (greedy, default) or a finite positive number.
	Temperature float32
	// TopK keeps the k highest logits, and ties with the k-th. Default: all.
	TopK int32
	// TopP keeps the most probable tokens until their share reaches it, in (0, 1]. Default: all.
	TopP float32
	// MinP keeps tokens at least this many times as probable as the best, in [0, 1]. Default: all.
	MinP float32
	// Seed makes draws repeatable: they depend on the logits, the options, the seed and the position alone.
	Seed uint64
}

func (o SamplingOptions) native() (*C.nl_sampling_options, error) {
	var options *C.nl_sampling_options
	if err := check(func() C.nl_status { return C.nl_sampling_options_create(&options) }); err != nil {
		return nil, err
	}
	for _, set := range []struct {
		given bool
		call  func() C.nl_status
	}{
		{o.Temperature != 0, func() C.nl_status {
			return C.nl_sampling_options_set_temperature(options, C.float(o.Temperature))
		}},
		{o.TopK != 0, func() C.nl_status { return C.nl_sampling_options_set_top_k(options, C.int32_t(o.TopK)) }},
		{o.TopP != 0, func() C.nl_status { return C.nl_sampling_options_set_top_p(options, C.float(o.TopP)) }},
		{o.MinP != 0, func() C.nl_status { return C.nl_sampling_options_set_min_p(options, C.float(o.MinP)) }},
		{o.Seed != 0, func() C.nl_status { return C.nl_sampling_options_set_seed(options, C.uint64_t(o.Seed)) }},
	} {
		if !set.given {
			continue
		}
		if err := check(set.call); err != nil {
			C.nl_sampling_options_free(options)
			return nil, err
		}
	}
	return options, nil
}
