package nanolith

/*
#include <nanolith/nanolith.h>

void nanolithGoLog(void *user_data, int32_t severity, char *message, size_t length);
int32_t nanolithGoProgress(void *user_data, double done);
int32_t nanolithGoLogits(void *user_data, int32_t *tokens, size_t num_tokens, float *logits, size_t num_logits);

// The user data is a number, never a pointer of Go's.
static nl_status nanolith_set_go_log(nl_options *options, uintptr_t log) {
    return nl_options_set_log(options, (nl_log_callback)nanolithGoLog, (void *)log);
}

static nl_status nanolith_set_go_progress(nl_options *options, uintptr_t progress) {
    return nl_options_set_progress(options, nanolithGoProgress, (void *)progress);
}

static nl_status nanolith_set_go_logits(nl_options *options, uintptr_t logits) {
    return nl_options_set_logits(options, (nl_logits_callback)nanolithGoLogits, (void *)logits);
}
*/
import "C"

import "runtime/cgo"

// Bool is a pointer to value, for options that are on or off: EngineOptions{WarmUp: nanolith.Bool(true)}.
func Bool(value bool) *bool { return &value }

// newOptions makes the library's options of a kind, to be freed by the caller. The values set themselves.
func newOptions(kind OptionsKind, values interface{ apply(*C.nl_options) error }) (*C.nl_options, error) {
	var options *C.nl_options
	if err := check(func() C.nl_status { return C.nl_options_create(C.int32_t(kind), &options) }); err != nil {
		return nil, err
	}
	if err := values.apply(options); err != nil {
		C.nl_options_free(options)
		return nil, err
	}
	return options, nil
}

func setInt(options *C.nl_options, key C.int32_t, value int64) error {
	return check(func() C.nl_status { return C.nl_options_set_int(options, key, C.int64_t(value)) })
}

func setFloat(options *C.nl_options, key C.int32_t, value float64) error {
	return check(func() C.nl_status { return C.nl_options_set_float(options, key, C.double(value)) })
}

func setText(options *C.nl_options, key C.int32_t, value string) error {
	text, length := chars(value)
	return check(func() C.nl_status { return C.nl_options_set_text(options, key, text, length) })
}

// callbacks are the numbers that the library knows an engine's functions by; 0 where there is none.
type callbacks struct {
	log      cgo.Handle
	progress cgo.Handle
	state    progressState
}

func (c *callbacks) set(options *C.nl_options, o *EngineOptions) error {
	if o.Log != nil {
		c.log = cgo.NewHandle(o.Log)
		if err := check(func() C.nl_status { return C.nanolith_set_go_log(options, C.uintptr_t(c.log)) }); err != nil {
			return err
		}
	}
	if o.Progress != nil {
		c.state.call = o.Progress
		c.progress = cgo.NewHandle(&c.state)
		return check(func() C.nl_status { return C.nanolith_set_go_progress(options, C.uintptr_t(c.progress)) })
	}
	return nil
}

// setLogits gives the state of a logits function, and the number that the library knows it by; nil and 0 where there is
// none.
func setLogits(options *C.nl_options, o *GenerationOptions) (*logitsState, cgo.Handle, error) {
	if o.Logits == nil {
		return nil, 0, nil
	}
	state := &logitsState{call: o.Logits}
	number := cgo.NewHandle(state)
	err := check(func() C.nl_status { return C.nanolith_set_go_logits(options, C.uintptr_t(number)) })
	return state, number, err
}

func drop(function cgo.Handle) {
	if function != 0 {
		function.Delete()
	}
}
