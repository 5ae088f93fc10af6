package nanolith

// #include <nanolith/nanolith.h>
import "C"

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"time"
	"unsafe"
)

// Piece is what a generation gave since it was asked last: tokens, text or both. They go their own ways: a token may come
// before or after its text.
type Piece struct {
	Tokens []int32 // the one that ended the generation included
	Text   string  // whole characters; text that may yet become a stop text is held back
}

// What one call fetches at most: what is more waits for the next.
const (
	pieceTokens = 64
	pieceBytes  = 1024
)

// Generation is tokens that the engine draws for a cache. Made by [Cache.Generate]. Goroutines that share one take turns.
type Generation struct {
	handle    *handle
	ctx       context.Context
	ended     chan struct{} // closed when nothing more comes
	closed    chan struct{} // closed by Close
	endOnce   sync.Once
	closeOnce sync.Once
	logits    *logitsState // nil where no function changes them

	mutex sync.Mutex // of the fields below
	end   EndReason
	err   error
}

// Generate appends tokens (perhaps none; the cache must not be empty then) and has the engine draw tokens after them, in
// batches with all else that it has to do. It returns at once; the [Generation] gives what was drawn. options may be nil.
// When ctx is done, the generation is cancelled. ErrBusy: the cache is generating already, or as many requests wait as
// the engine allows. Close the generation, unless it has told its end.
func (c *Cache) Generate(ctx context.Context, tokens []int32, options *GenerationOptions) (*Generation, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if options == nil {
		options = new(GenerationOptions)
	}
	native, err := newOptions(OptionsGeneration, options)
	if err != nil {
		return nil, err
	}
	defer C.nl_options_free(native)
	var raw *C.nl_generation
	data, count := ints(tokens)
	pointer, err := c.handle.use()
	if err != nil {
		return nil, err
	}
	defer c.handle.done()
	logits, number, err := setLogits(native, options)
	if err == nil {
		err = check(func() C.nl_status {
			return C.nl_generation_start((*C.nl_cache)(pointer), data, count, native, &raw)
		})
	}
	if err != nil {
		drop(number)
		return nil, err
	}
	free := func(pointer unsafe.Pointer) {
		C.nl_generation_free((*C.nl_generation)(pointer))
		drop(number)
	}
	handle := newHandle(unsafe.Pointer(raw), free, c.handle.parent)
	g := &Generation{handle: handle, ctx: ctx, ended: make(chan struct{}), closed: make(chan struct{}), logits: logits}
	if ctx.Done() != nil {
		go watch(ctx, handle, g.ended)
		runtime.SetFinalizer(g, func(g *Generation) { g.Close() })
	}
	return g, nil
}

// watch cancels a generation when its context is done. It does not keep the Generation from being collected.
func watch(ctx context.Context, handle *handle, ended <-chan struct{}) {
	select {
	case <-ctx.Done():
		if pointer, err := handle.use(); err == nil {
			C.nl_generation_cancel((*C.nl_generation)(pointer))
			handle.done()
		}
	case <-ended:
	}
}

// Close cancels the generation where it still runs, and drops it. Who waits for its next piece gets ErrClosed, or a last
// piece. It always returns nil, and may be called again.
func (g *Generation) Close() error {
	g.Cancel() // so that nobody waits on
	g.endOnce.Do(func() { close(g.ended) })
	g.closeOnce.Do(func() { close(g.closed) })
	return g.handle.close()
}

// call uses the generation for one call of the library.
func (g *Generation) call(body func(generation *C.nl_generation) C.nl_status) error {
	pointer, err := g.handle.use()
	if err != nil {
		return err
	}
	defer g.handle.done()
	defer runtime.KeepAlive(g) // whose finalizer would cancel
	return check(func() C.nl_status { return body((*C.nl_generation)(pointer)) })
}

// Cancel ends the generation when the step that runs now is over; what it has drawn can still be fetched, and its end is
// then EndCancelled. It returns at once, and does nothing where the generation has ended.
func (g *Generation) Cancel() error {
	return g.call(func(generation *C.nl_generation) C.nl_status { return C.nl_generation_cancel(generation) })
}

// Next waits for the next piece. At the end it gives io.EOF, or the error that ended the generation: that of the context,
// where that was done first, or that of GenerationOptions.Logits, whose panic goes on here. [Generation.End] tells why it
// ended.
//
// A goroutine that waits here keeps a thread of the operating system meanwhile, as in every call of C.
func (g *Generation) Next() (Piece, error) { return g.panicking(g.next(-1)) }

// NextWithin is Next that waits no longer than the timeout, rounded down to milliseconds, and gives ErrTimeout then; it
// may be called again.
func (g *Generation) NextWithin(timeout time.Duration) (Piece, error) {
	if timeout < 0 {
		timeout = 0
	}
	return g.panicking(g.next(timeout.Milliseconds()))
}

// errPanicked is the error of a generation that ended by a panic.
var errPanicked = errors.New("nanolith: the logits function panicked")

// panicking goes on with the panic that ended the generation, if one did.
func (g *Generation) panicking(piece Piece, err error) (Piece, error) {
	if err == errPanicked {
		_, _, problem := g.logits.ended()
		panic(problem)
	}
	return piece, err
}

func (g *Generation) next(timeoutMs int64) (Piece, error) {
	if ended, err := g.told(); ended {
		return Piece{}, err
	}
	var tokens [pieceTokens]int32
	var text [pieceBytes]byte
	var numTokens, length C.size_t
	var end C.int32_t
	err := g.call(func(generation *C.nl_generation) C.nl_status {
		return C.nl_generation_next(generation, C.int64_t(timeoutMs), (*C.int32_t)(unsafe.Pointer(&tokens[0])),
			pieceTokens, &numTokens, (*C.char)(unsafe.Pointer(&text[0])), pieceBytes, &length, &end)
	})
	if errors.Is(err, ErrTimeout) || errors.Is(err, ErrClosed) {
		return Piece{}, err
	}
	if err != nil && numTokens+length > 0 {
		err, end = nil, C.NL_END_NONE // the next call gives them again
	}
	if err != nil || end != C.NL_END_NONE {
		g.tell(EndReason(end), err)
	}
	if err == nil && numTokens+length > 0 {
		return Piece{append([]int32(nil), tokens[:numTokens]...), string(text[:length])}, nil
	}
	_, err = g.told()
	return Piece{}, err
}

// Logprobs gives the log-probabilities of the latest piece's tokens, of the model's own distribution. It needs
// GenerationOptions.Logprobs.
func (g *Generation) Logprobs() ([]float32, error) {
	pointer, err := g.handle.use()
	if err != nil {
		return nil, err
	}
	defer g.handle.done()
	return fill(pieceTokens, func(logprobs *float32, capacity C.size_t, count *C.size_t) C.nl_status {
		return C.nl_generation_logprobs((*C.nl_generation)(pointer), (*C.float)(unsafe.Pointer(logprobs)), capacity, count)
	})
}

// TokenLogprob is a token with its log-probability.
type TokenLogprob struct {
	Token   int32
	Logprob float32
}

// TopLogprobs gives the tokens most probable in the place of each of the latest piece's tokens, the most probable first:
// as many for each as GenerationOptions.TopLogprobs says, one token's after the other's.
func (g *Generation) TopLogprobs() ([]TokenLogprob, error) {
	pointer, err := g.handle.use()
	if err != nil {
		return nil, err
	}
	defer g.handle.done()
	var logprobs []float32
	tokens, err := fill(0, func(tokens *int32, capacity C.size_t, count *C.size_t) C.nl_status {
		logprobs = make([]float32, int(capacity))
		return C.nl_generation_top_logprobs((*C.nl_generation)(pointer), (*C.int32_t)(unsafe.Pointer(tokens)),
			(*C.float)(unsafe.Pointer(first(logprobs))), capacity, count)
	})
	found := make([]TokenLogprob, len(tokens))
	for i, token := range tokens {
		found[i] = TokenLogprob{token, logprobs[i]}
	}
	return found, err
}

// tell keeps why it ended.
func (g *Generation) tell(end EndReason, err error) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if err == nil && end == EndCancelled {
		err = g.ctx.Err()
	}
	if g.logits != nil {
		problem, panicked, _ := g.logits.ended()
		if panicked {
			err = errPanicked
		} else if problem != nil {
			err = problem
		}
	}
	if err == nil {
		err = io.EOF
	}
	g.end, g.err = end, err
	g.endOnce.Do(func() { close(g.ended) })
}

// told tells whether the end was reached, and what Next gives from then on.
func (g *Generation) told() (bool, error) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.err != nil, g.err
}

// End tells why the generation ended: EndNone until Next has given its error. Query(GenerationEnd) tells it before.
func (g *Generation) End() EndReason {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.end
}

// Err is the error that ended the generation; nil before, and where it ended by itself or by Cancel. Where Next would
// panic, so does Err.
func (g *Generation) Err() error {
	_, err := g.told()
	if g.panicking(Piece{}, err); err != io.EOF {
		return err
	}
	return nil
}

// Pieces gives the pieces through a channel, which is closed at the end; Err tells the error then, if there was one. Who
// stops reading before the end closes the generation.
func (g *Generation) Pieces() <-chan Piece {
	pieces := make(chan Piece)
	go func() {
		defer close(pieces)
		for {
			piece, err := g.next(-1) // a panic is Err's
			if err != nil {
				return
			}
			select {
			case pieces <- piece:
			case <-g.closed:
				return
			}
		}
	}()
	return pieces
}

// Text waits for the end, and gives all the text that was still to come. The tokens are dropped.
func (g *Generation) Text() (string, error) {
	var text []byte
	for {
		piece, err := g.Next()
		text = append(text, piece.Text...)
		if err == io.EOF {
			return string(text), nil
		}
		if err != nil {
			return string(text), err
		}
	}
}

// Query gives a fact about the generation.
func (g *Generation) Query(fact GenerationFact) (int64, error) {
	var value C.int64_t
	err := g.call(func(generation *C.nl_generation) C.nl_status {
		return C.nl_generation_query(generation, C.int32_t(fact), &value)
	})
	return int64(value), err
}

// Statistics tell how a generation went so far, or all in all.
type Statistics struct {
	Tokens          int64         // drawn
	TokensReused    int64         // of the context at its start, those that were computed already
	TokensComputed  int64         // computed for it, those that it drew included
	Queued          time.Duration // from its start to its first step
	FirstToken      time.Duration // from its start to its first token; negative until there is one
	Total           time.Duration // from its start to its end, or until now
	TokensPerSecond int64         // after the first token, rounded down; 0 while there is one or none
}

// Statistics tell how the generation went so far.
func (g *Generation) Statistics() (Statistics, error) {
	var values [GenerationTokensPerSecond + 1]int64
	for fact := GenerationTokens; fact <= GenerationTokensPerSecond; fact++ {
		var err error
		if values[fact], err = g.Query(fact); err != nil {
			return Statistics{}, err
		}
	}
	duration := func(fact GenerationFact) time.Duration { return time.Duration(values[fact]) * time.Microsecond }
	return Statistics{values[GenerationTokens], values[GenerationTokensReused], values[GenerationTokensComputed],
		duration(GenerationQueuedUs), duration(GenerationFirstTokenUs), duration(GenerationTotalUs),
		values[GenerationTokensPerSecond]}, nil
}

// Descriptor is a file descriptor to poll, select or epoll: readable while Next would not wait. It belongs to the
// generation: don't read from it, write to it or close it, and don't make an os.File of it, which would close it.
// ErrIo: the process has no descriptors left.
func (g *Generation) Descriptor() (int, error) {
	var descriptor C.int32_t
	err := g.call(func(generation *C.nl_generation) C.nl_status {
		return C.nl_generation_descriptor(generation, &descriptor)
	})
	return int(descriptor), err
}
