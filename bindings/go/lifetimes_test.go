package nanolith

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nanolith/internal/cheap"
)

var model = filepath.Join(root, "examples/model")

func load(t testing.TB) *Engine {
	t.Helper()
	engine, err := NewEngine(model, &EngineOptions{Device: "cpu", Threads: 2, PageSize: 16, NumPages: 256})
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// must gives a value that can't fail to be had.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func greedy(cache *Cache, count int) (tokens []int32) {
	for ; count > 0; count-- {
		tokens = append(tokens, must(DecodeStep(cache))...)
	}
	return tokens
}

func TestUseAfterClose(t *testing.T) {
	engine := load(t)
	tokenizer := must(engine.Tokenizer())
	stream := must(tokenizer.NewTextStream())
	format := must(tokenizer.NewChatFormat("plain"))
	chunk := must(engine.Prefill([]int32{1, 7, 9}, 0))
	cache := must(engine.NewCache(nil, chunk))
	open := must(cache.Fork())
	generation := must(must(cache.Fork()).Generate(context.Background(), nil, nil))
	for i := 0; i < 2; i++ {
		for _, closer := range []interface{ Close() error }{engine, tokenizer, stream, format, chunk, cache, generation} {
			if err := closer.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	calls := map[string]func() error{
		"engine.Query":      func() error { _, err := engine.Query(EngineNumLayers); return err },
		"engine.Device":     func() error { _, err := engine.Device(); return err },
		"engine.IsEndToken": func() error { _, err := engine.IsEndToken(2); return err },
		"engine.Tokenizer":  func() error { _, err := engine.Tokenizer(); return err },
		"engine.Prefill":    func() error { _, err := engine.Prefill([]int32{1}, 0); return err },
		"engine.NewCache":   func() error { _, err := engine.NewCache(nil); return err },
		"tokenizer.Encode":  func() error { _, err := tokenizer.Encode("x", 0); return err },
		"tokenizer.Decode":  func() error { _, err := tokenizer.Decode([]int32{7}); return err },
		"tokenizer.Query":   func() error { _, err := tokenizer.Query(TokenizerBos); return err },
		"tokenizer.Find":    func() error { _, err := tokenizer.Find("x"); return err },
		"tokenizer.Piece":   func() error { _, err := tokenizer.Piece(7); return err },
		"tokenizer.Stream":  func() error { _, err := tokenizer.NewTextStream(); return err },
		"tokenizer.Format":  func() error { _, err := tokenizer.NewChatFormat("plain"); return err },
		"format.Name":       func() error { _, err := format.Name(); return err },
		"format.Render":     func() error { _, err := format.Render([]Message{{RoleUser, "x"}}, 0); return err },
		"zero ChatFormat":   func() error { _, err := new(ChatFormat).Name(); return err },
		"stream.Push":       func() error { _, err := stream.Push(7); return err },
		"stream.Finish":     func() error { _, err := stream.Finish(); return err },
		"chunk.Query":       func() error { _, err := chunk.Query(ChunkTokens); return err },
		"chunk.Retain":      func() error { _, err := chunk.Retain(); return err },
		"cache.Extend":      func() error { return cache.Extend([]int32{7}) },
		"cache.Fork":        func() error { _, err := cache.Fork(); return err },
		"cache.Truncate":    func() error { return cache.Truncate(1) },
		"cache.Tokens":      func() error { _, err := cache.Tokens(); return err },
		"cache.Logits":      func() error { _, err := cache.Logits(); return err },
		"cache.Query":       func() error { _, err := cache.Query(CacheTokens); return err },
		"cache.SetSampling": func() error { return cache.SetSampling(SamplingOptions{}) },
		"DecodeStep":        func() error { _, err := DecodeStep(open, cache); return err },
		"zero Engine":       func() error { _, err := new(Engine).Query(EngineNumLayers); return err },
		"zero Cache":        func() error { return new(Cache).Extend(nil) },
		"engine.Cancel":     func() error { return engine.Cancel() },
		"cache.Cancel":      func() error { return cache.Cancel() },
		"cache.Generate":    func() error { _, err := cache.Generate(context.Background(), nil, nil); return err },
		"generation.Next":   func() error { _, err := generation.Next(); return err },
		"generation.Text":   func() error { _, err := generation.Text(); return err },
		"generation.Query":  func() error { _, err := generation.Query(GenerationTokens); return err },
		"generation.Cancel": func() error { return generation.Cancel() },
		"generation.Descr.": func() error { _, err := generation.Descriptor(); return err },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s gave %v", name, err)
		}
	}
	if tokens, err := open.Tokens(); err != nil || len(tokens) != 3 {
		t.Errorf("the open cache gave %v, %v", tokens, err)
	}
	open.Close()
}

func TestWhatAnEngineGaveOutlivesIt(t *testing.T) {
	engine := load(t)
	tokenizer := must(engine.Tokenizer())
	format := must(tokenizer.NewChatFormat("plain"))
	stream := must(tokenizer.NewTextStream())
	chunk := must(engine.Prefill([]int32{1, 7, 9}, 0))
	cache := must(engine.NewCache(nil, chunk))
	fork := must(cache.Fork())
	messages := []Message{{RoleSystem, "<|system|> Be brief."}, {RoleUser, "<|user|> Who?"}}
	expected := must(format.Render(messages, 0))
	engine.Close()
	tokenizer.Close()
	if chat := must(format.Render(messages, ChatAddGenerationPrompt)); !reflect.DeepEqual(chat, expected) {
		t.Errorf("%v, expected %v", chat, expected)
	}
	if name := must(format.Name()); name != "plain" {
		t.Error(name)
	}
	if text := must(stream.Push(5)) + must(stream.Finish()); text != "<|user|>" {
		t.Error(text)
	}
	chunk.Close()
	tokens := greedy(cache, 4)
	cache.Close()
	if other := greedy(fork, 4); !reflect.DeepEqual(other, tokens) {
		t.Errorf("%v, expected %v", other, tokens)
	}
	for _, closer := range []interface{ Close() error }{fork, stream, format} {
		closer.Close()
	}
}

func TestRenderedChatIsTheSumOfItsMessages(t *testing.T) {
	tokenizer := must(LoadTokenizer(model))
	defer tokenizer.Close()
	format := must(tokenizer.NewChatFormat("plain"))
	defer format.Close()
	long := strings.Repeat("Boso Polm ", 2000) // more tokens than are guessed at first
	var messages []Message
	var text string
	for _, content := range []string{"<|system|> Be brief.", long, "", "<|user|> Who?"} {
		messages = append(messages, Message{RoleUser, content})
		text += content
	}
	chat := must(format.Render(messages, 0))
	var tokens []int32
	for i := range messages {
		tokens = append(tokens, chat.Message(i)...)
	}
	if !reflect.DeepEqual(tokens, chat.Tokens) || len(chat.Message(2)) != 0 || len(chat.From(4)) != 0 {
		t.Error(chat.Ends)
	}
	if !reflect.DeepEqual(chat.From(3), chat.Message(3)) || must(tokenizer.Decode(chat.From(0))) != text {
		t.Error(chat.Ends)
	}
}

func TestChatsThatCannotBeHad(t *testing.T) {
	tokenizer := must(LoadTokenizer(model))
	defer tokenizer.Close()
	for name, expected := range map[string]Status{"": ErrNotFound, "no-such": ErrInvalidArgument, "chatml": ErrUnsupported} {
		if _, err := tokenizer.NewChatFormat(name); !errors.Is(err, expected) {
			t.Errorf("%q gave %v", name, err)
		}
	}
	format := must(tokenizer.NewChatFormat("plain"))
	defer format.Close()
	for _, messages := range [][]Message{nil, {{3, "x"}}, {{-1, "x"}}} {
		if _, err := format.Render(messages, 0); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%v gave %v", messages, err)
		}
	}
	_, err := format.Render([]Message{{RoleUser, "x"}}, 1<<30)
	if !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "flags") {
		t.Error(err)
	}
}

func TestErrors(t *testing.T) {
	_, err := NewEngine("/nowhere", nil)
	var problem *Error
	if !errors.Is(err, ErrNotFound) || errors.Is(err, ErrBadModel) || !errors.As(err, &problem) {
		t.Fatal(err)
	}
	if problem.Status.Error() != "NL_ERROR_NOT_FOUND" || !strings.Contains(problem.Text, "/nowhere") {
		t.Error(problem.Status, problem)
	}
}

// prompted is a cache with something to go on from, and its engine.
func prompted(t *testing.T, options EngineOptions) (*Engine, *Cache) {
	t.Helper()
	options.Device, options.Threads, options.PageSize = "cpu", 2, 16
	engine := must(NewEngine(model, &options))
	tokenizer := must(engine.Tokenizer())
	defer tokenizer.Close()
	cache := must(engine.NewCache(nil))
	if err := cache.Extend(must(tokenizer.Encode("<|doc|> Boso Polm", EncodeAddBos))); err != nil {
		t.Fatal(err)
	}
	return engine, cache
}

// endless goes on until somebody ends it: it pauses, and goes on when it is read.
var endless = GenerationOptions{EndTokens: Bool(false), BufferTokens: 2}

func TestContextCancelsGeneration(t *testing.T) {
	engine, cache := prompted(t, EngineOptions{NumPages: 256})
	defer engine.Close()
	defer cache.Close()
	ctx, cancel := context.WithCancel(context.Background())
	generation := must(cache.Generate(ctx, nil, &endless))
	defer generation.Close()
	for i := 0; i < 3; i++ {
		must(generation.Next())
	}
	cancel()
	var err error
	for err == nil {
		_, err = generation.Next()
	}
	if err != context.Canceled || generation.Err() != err || generation.End() != EndCancelled {
		t.Error(err, generation.Err(), generation.End())
	}
	if _, again := generation.Next(); again != err {
		t.Error(again)
	}
	if _, err := cache.Generate(ctx, nil, nil); err != context.Canceled {
		t.Error(err)
	}
	// The cache is free again.
	if err := cache.Extend([]int32{7}); err != nil {
		t.Error(err)
	}
}

func TestCancelWakesWhoWaits(t *testing.T) {
	engine, cache := prompted(t, EngineOptions{NumPages: 256})
	defer engine.Close()
	defer cache.Close()
	for _, end := range []func(g *Generation) error{(*Generation).Cancel, (*Generation).Close,
		func(*Generation) error { return cache.Cancel() }, func(*Generation) error { return engine.Cancel() }} {
		generation := must(cache.Generate(context.Background(), nil, &GenerationOptions{EndTokens: Bool(false)}))
		done := make(chan error)
		go func() {
			_, err := generation.Text()
			done <- err
		}()
		time.Sleep(5 * time.Millisecond)
		if err := end(generation); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		generation.Close()
		truncate(t, cache, 4)
	}
}

func TestPiecesAreReadOrClosed(t *testing.T) {
	engine, cache := prompted(t, EngineOptions{NumPages: 256})
	defer engine.Close()
	fork := must(cache.Fork())
	expected := greedy(fork, 6)
	fork.Close()
	before := runtime.NumGoroutine()
	generation := must(cache.Generate(context.Background(), nil, &GenerationOptions{MaxTokens: 6, EndTokens: Bool(false)}))
	cache.Close() // a generation goes on without its cache's handle
	var tokens []int32
	for piece := range generation.Pieces() {
		tokens = append(tokens, piece.Tokens...)
	}
	if !reflect.DeepEqual(tokens, expected) || generation.Err() != nil || generation.End() != EndLength {
		t.Error(tokens, expected, generation.Err(), generation.End())
	}
	if statistics := must(generation.Statistics()); statistics.Tokens != 6 || statistics.FirstToken <= 0 ||
		statistics.Total < statistics.FirstToken {
		t.Error(statistics)
	}
	generation.Close()
	_, cache = prompted(t, EngineOptions{NumPages: 256})
	defer cache.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	generation = must(cache.Generate(ctx, nil, &endless))
	<-generation.Pieces()
	generation.Close()
	for try := 0; runtime.NumGoroutine() > before && try < 100; try++ {
		time.Sleep(10 * time.Millisecond)
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines more", after-before)
	}
}

func TestWaitingWithin(t *testing.T) {
	engine, cache := prompted(t, EngineOptions{NumPages: 256})
	defer engine.Close()
	defer cache.Close()
	generation := must(cache.Generate(context.Background(), make([]int32, 900), &GenerationOptions{MaxTokens: 1}))
	defer generation.Close()
	if _, err := generation.NextWithin(0); !errors.Is(err, ErrTimeout) {
		t.Error(err)
	}
	if must(generation.Descriptor()) != must(generation.Descriptor()) {
		t.Error("another descriptor")
	}
	for {
		_, err := generation.NextWithin(time.Minute)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := cache.Generate(context.Background(), []int32{1, -1}, nil); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
}

func TestGenerationEndsByError(t *testing.T) {
	engine, cache := prompted(t, EngineOptions{NumPages: 1})
	defer engine.Close()
	defer cache.Close()
	generation := must(cache.Generate(context.Background(), nil, &GenerationOptions{EndTokens: Bool(false)}))
	defer generation.Close()
	_, err := generation.Text()
	var problem *Error
	if !errors.As(err, &problem) || problem.Status != ErrOutOfPages || problem.Needed != 1 || problem.Available != 0 ||
		problem.Index != -1 || generation.Err() != err || generation.End() != EndError {
		t.Error(err, problem, generation.End())
	}
	other := must(engine.NewCache(nil))
	defer other.Close()
	_, err = DecodeStep(cache, other)
	if !errors.As(err, &problem) || problem.Index != 1 {
		t.Error(err)
	}
}

// A generation that nobody closes is cancelled by the garbage collector, with a context that goes on.
func TestForgottenGeneration(t *testing.T) {
	engine, cache := prompted(t, EngineOptions{NumPages: 256})
	defer engine.Close()
	defer cache.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	func() { must(must(cache.Generate(ctx, nil, &endless)).Next()) }()
	err := cache.Extend([]int32{7})
	for try := 0; try < 100 && errors.Is(err, ErrBusy); try++ {
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
		err = cache.Extend([]int32{7})
	}
	if err != nil {
		t.Error(err)
	}
}

func TestProgress(t *testing.T) {
	var heard []float64
	options := EngineOptions{Device: "cpu", NumPages: 8, Progress: func(done float64) error {
		heard = append(heard, done)
		return nil
	}}
	must(NewEngine(model, &options)).Close()
	if len(heard) == 0 || heard[len(heard)-1] != 1 {
		t.Error(heard)
	}
	stop := errors.New("enough")
	options.Progress = func(float64) error { return stop }
	if _, err := NewEngine(model, &options); err != stop {
		t.Error(err)
	}
	options.Progress = func(float64) error { panic(stop) }
	defer func() {
		if problem := recover(); problem != stop {
			t.Error(problem)
		}
	}()
	NewEngine(model, &options)
}

// force leaves one token that can be drawn.
func force(logits []float32, token int) {
	for i := range logits {
		logits[i] = float32(math.Inf(-1))
	}
	logits[token] = 0
}

// drawn gives all tokens until the end, and the error there.
func drawn(generation *Generation) (tokens []int32, err error) {
	for {
		piece, err := generation.Next()
		if err != nil {
			return tokens, err
		}
		tokens = append(tokens, piece.Tokens...)
	}
}

func TestLogitsAreChanged(t *testing.T) {
	engine, cache := prompted(t, EngineOptions{NumPages: 256})
	defer engine.Close()
	defer cache.Close()
	fork := must(cache.Fork())
	defer fork.Close()
	prompt := must(cache.Tokens())
	vocabulary := int(must(engine.Query(EngineVocabSize)))
	var mutex sync.Mutex
	seen := map[string]int{}
	options := GenerationOptions{MaxTokens: 4, EndTokens: Bool(false), Logits: func(tokens []int32, logits []float32) error {
		mutex.Lock()
		defer mutex.Unlock()
		seen[fmt.Sprint(tokens)]++
		if len(logits) != vocabulary {
			t.Error(len(logits))
		}
		force(logits, 7+len(tokens))
		return nil
	}}
	// Two of the same options at once.
	generations := []*Generation{must(cache.Generate(context.Background(), nil, &options)),
		must(fork.Generate(context.Background(), nil, &options))}
	all, expected := append([]int32(nil), prompt...), map[string]int{}
	for len(all) < len(prompt)+4 {
		expected[fmt.Sprint(all)] = 2
		all = append(all, int32(7+len(all)))
	}
	for _, generation := range generations {
		tokens, err := drawn(generation)
		if !reflect.DeepEqual(tokens, all[len(prompt):]) || err != io.EOF || generation.End() != EndLength {
			t.Error(tokens, err, generation.End())
		}
		generation.Close()
	}
	mutex.Lock()
	defer mutex.Unlock()
	if !reflect.DeepEqual(seen, expected) {
		t.Error(seen, expected)
	}
	// Each has its own function.
	forcing := func(cache *Cache, token int) *Generation {
		return must(cache.Generate(context.Background(), nil, &GenerationOptions{MaxTokens: 3,
			Logits: func(_ []int32, logits []float32) error {
				force(logits, token)
				return nil
			}}))
	}
	first, second := forcing(cache, 500), forcing(fork, 600)
	defer first.Close()
	defer second.Close()
	if tokens := must(collect(second)); !reflect.DeepEqual(tokens, []int32{600, 600, 600}) {
		t.Error(tokens)
	}
	if tokens := must(collect(first)); !reflect.DeepEqual(tokens, []int32{500, 500, 500}) {
		t.Error(tokens)
	}
}

// collect gives all tokens of a generation. Its error is nil where the generation came to its end (io.EOF).
func collect(generation *Generation) ([]int32, error) {
	tokens, err := drawn(generation)
	if err == io.EOF {
		err = nil
	}
	return tokens, err
}

// ending draws 500 twice, and then has the generation end in some way.
func ending(cache *Cache, how func(logits []float32) error) *Generation {
	calls := 0
	return must(cache.Generate(context.Background(), nil, &GenerationOptions{EndTokens: Bool(false),
		Logits: func(_ []int32, logits []float32) error {
			force(logits, 500)
			if calls++; calls <= 2 {
				return nil
			}
			return how(logits)
		}}))
}

func TestLogitsFunctionEndsItsGeneration(t *testing.T) {
	engine, cache := prompted(t, EngineOptions{NumPages: 256})
	defer engine.Close()
	defer cache.Close()
	enough := errors.New("enough")
	spoil := func(value float64) func(logits []float32) error {
		return func(logits []float32) error {
			logits[500] = float32(value)
			return nil
		}
	}
	for _, ends := range []struct {
		how      func(logits []float32) error
		expected error
		end      EndReason
	}{
		{func([]float32) error { return enough }, enough, EndCancelled},
		{func([]float32) error { return io.EOF }, io.EOF, EndCancelled},
		{spoil(math.NaN()), ErrInvalidArgument, EndError},
		{spoil(math.Inf(1)), ErrInvalidArgument, EndError},
		{spoil(math.Inf(-1)), ErrInvalidArgument, EndError},
	} {
		generation := ending(cache, ends.how)
		tokens, err := drawn(generation)
		if !reflect.DeepEqual(tokens, []int32{500, 500}) || !errors.Is(err, ends.expected) || generation.End() != ends.end {
			t.Error(tokens, err, generation.End(), ends.expected)
		}
		if told := generation.Err(); told != err && err != io.EOF || err == io.EOF && told != nil {
			t.Error(told, err)
		}
		if _, again := generation.Next(); again != err {
			t.Error(again, err)
		}
		generation.Close()
		truncate(t, cache, 4)
	}
}

// truncate waits until the cache is free: a generation that was closed ends with its step.
func truncate(t *testing.T, cache *Cache, length int) {
	t.Helper()
	for {
		err := cache.Truncate(length)
		if err == nil {
			return
		}
		if !errors.Is(err, ErrBusy) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestPanicOfLogitsFunction(t *testing.T) {
	engine, cache := prompted(t, EngineOptions{NumPages: 256})
	defer engine.Close()
	defer cache.Close()
	enough := errors.New("enough")
	panics := func(call func()) {
		t.Helper()
		defer func() {
			if problem := recover(); problem != enough {
				t.Error(problem)
			}
		}()
		call()
	}
	for _, read := range []func(*Generation) (Piece, error){
		(*Generation).Next, func(g *Generation) (Piece, error) { return g.NextWithin(time.Minute) },
	} {
		generation := ending(cache, func([]float32) error { panic(enough) })
		var tokens []int32
		panics(func() {
			for {
				tokens = append(tokens, must(read(generation)).Tokens...)
			}
		})
		if !reflect.DeepEqual(tokens, []int32{500, 500}) || generation.End() != EndCancelled {
			t.Error(tokens, generation.End())
		}
		panics(func() { generation.Next() })
		generation.Close()
		truncate(t, cache, 4)
	}
	// The goroutine of a channel has nobody to panic for.
	generation := ending(cache, func([]float32) error { panic(enough) })
	defer generation.Close()
	var tokens []int32
	for piece := range generation.Pieces() {
		tokens = append(tokens, piece.Tokens...)
	}
	if !reflect.DeepEqual(tokens, []int32{500, 500}) {
		t.Error(tokens)
	}
	panics(func() { generation.Err() })
}

func TestCloseWaitsForLogitsFunction(t *testing.T) {
	engine, cache := prompted(t, EngineOptions{NumPages: 256})
	defer engine.Close()
	defer cache.Close()
	var running, calls, freed atomic.Int32
	for round := 0; round < 20; round++ {
		func() {
			kept := new([1 << 10]byte) // it goes with the function
			runtime.SetFinalizer(kept, func(*[1 << 10]byte) { freed.Add(1) })
			generation := must(cache.Generate(context.Background(), nil, &GenerationOptions{EndTokens: Bool(false), BufferTokens: 2,
				Logits: func([]int32, []float32) error {
					running.Add(1)
					calls.Add(1)
					time.Sleep(3 * time.Millisecond)
					running.Add(-1)
					runtime.KeepAlive(kept)
					return nil
				}}))
			time.Sleep(time.Duration(round) * time.Millisecond)
			generation.Close()
		}()
		if running.Load() != 0 {
			t.Error("it still runs")
		}
		truncate(t, cache, 4)
	}
	if calls.Load() == 0 {
		t.Error("it never ran: nothing is tested here")
	}
	for try := 0; try < 100 && freed.Load() < 20; try++ {
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
	if freed.Load() < 19 { // what a stack still has is not found
		t.Errorf("%d of 20 functions were freed", freed.Load())
	}
}

func TestWhatTheLibraryTells(t *testing.T) {
	if Version() == "" || VersionNumber() < 200 {
		t.Error(Version(), VersionNumber())
	}
	if bounds := must(FloatBounds(OptionTopP)); bounds != (Bounds[float64]{1e-30, 1, 1}) {
		t.Error(bounds)
	}
	if bounds := must(IntBounds(OptionPageSize)); bounds != (Bounds[int64]{16, 256, 64}) {
		t.Error(bounds)
	}
	for _, text := range []string{must(DescribeOptions(OptionsGeneration)), must(DescribeFacts(FactsCache))} {
		var all []map[string]any
		if err := json.Unmarshal([]byte(text), &all); err != nil || len(all) == 0 || all[0]["doc"] == "" {
			t.Error(err, text)
		}
	}
	var facts map[string]any
	if err := json.Unmarshal([]byte(must(DescribeModel(model, DescribeJson))), &facts); err != nil || facts["layers"] != 6.0 {
		t.Error(err, facts)
	}
	engine := load(t)
	defer engine.Close()
	var numbers struct {
		Pages int64 `json:"pages_total"`
		Tiers []struct{ Tier string }
	}
	err := json.Unmarshal([]byte(must(engine.Describe())), &numbers)
	if err != nil || numbers.Pages != 256 || len(numbers.Tiers) != 1 || numbers.Tiers[0].Tier != "device" {
		t.Error(err, numbers)
	}
	cache := must(engine.NewCache(nil))
	defer cache.Close()
	if err := json.Unmarshal([]byte(must(cache.Describe())), &facts); err != nil || facts["private_pages"] != 0.0 {
		t.Error(err, facts)
	}
}

func TestLogAndPanicInIt(t *testing.T) {
	var lines atomic.Int32
	options := EngineOptions{Device: "auto", NumPages: 8, Log: func(severity Severity, line string) {
		lines.Add(1)
		panic("a panic of the log function")
	}}
	engine := must(NewEngine(model, &options))
	chunk := must(engine.Prefill([]int32{1, 2, 3}, 0))
	engine.Close()
	chunk.Close()
	if lines.Load() == 0 {
		t.Error("no line: without a GPU the library says that it took the CPU")
	}
}

// Handles that nobody closes are freed by the garbage collector, in whatever order it finds them.
func TestFinalizers(t *testing.T) {
	engine := load(t)
	defer engine.Close()
	before := must(engine.Query(EnginePagesFree))
	for round := 0; round < 20; round++ {
		func() {
			other := must(NewEngine(model, &EngineOptions{Device: "cpu", NumPages: 8}))
			tokenizer := must(other.Tokenizer())
			must(tokenizer.NewTextStream())
			must(tokenizer.NewChatFormat("plain"))
			must(must(other.NewCache(nil, must(other.Prefill([]int32{1, 2, int32(round)}, 1)))).Fork())
			cache := must(engine.NewCache(nil))
			if err := cache.Extend([]int32{1, 2, 3}); err != nil {
				t.Fatal(err)
			}
		}()
	}
	if used := before - must(engine.Query(EnginePagesFree)); used == 0 {
		t.Error("the caches use no pages: nothing is tested here")
	}
	for try := 0; try < 100 && must(engine.Query(EnginePagesFree)) < before; try++ {
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
	if after := must(engine.Query(EnginePagesFree)); after != before {
		t.Errorf("%d of %d pages are free after the garbage collection", after, before)
	}
}

func TestSixteenGoroutines(t *testing.T) {
	engine := load(t)
	defer engine.Close()
	tokenizer := must(engine.Tokenizer())
	stream := must(tokenizer.NewTextStream())
	prompt := must(tokenizer.Encode("<|user|> Name the place.<|assistant|>", EncodeAddBos))
	chunk := must(engine.Prefill(prompt, 0))
	cache := must(engine.NewCache(nil, chunk))
	expected := greedy(must(cache.Fork()), 4)
	format := must(tokenizer.NewChatFormat("plain"))
	messages := []Message{{RoleUser, "<|user|> Name the place."}, {RoleAssistant, "Jewick"}}
	rendered := must(format.Render(messages, 0))
	var group sync.WaitGroup
	for number := 0; number < 16; number++ {
		group.Add(1)
		go func(number int) {
			defer group.Done()
			for round := 0; round < 3; round++ {
				mine := must(cache.Fork())
				if number%2 == 0 {
					mine.Close()
					mine = must(engine.NewCache(nil, chunk))
				}
				if tokens := greedy(mine, 4); !reflect.DeepEqual(tokens, expected) {
					t.Errorf("%v, expected %v", tokens, expected)
				}
				mine.Close()
				fork := must(cache.Fork())
				generation := must(fork.Generate(context.Background(), nil, &GenerationOptions{MaxTokens: 4, EndTokens: Bool(false)}))
				fork.Close()
				var drawn []int32
				for piece := range generation.Pieces() {
					drawn = append(drawn, piece.Tokens...)
				}
				if generation.Close(); !reflect.DeepEqual(drawn, expected) {
					t.Errorf("%v, expected %v", drawn, expected)
				}
				must(stream.Push(7))
				if chat := must(format.Render(messages, 0)); !reflect.DeepEqual(chat, rendered) {
					t.Errorf("%v, expected %v", chat, rendered)
				}
				bad := int32(5000 + 1000*number + round)
				if _, err := engine.Prefill([]int32{bad}, 1); err == nil || !strings.Contains(err.Error(), fmt.Sprint(bad)) {
					t.Errorf("%d gave %v", bad, err)
				}
			}
		}(number)
	}
	group.Wait()
}

// A Close while others call: each call either works or gives ErrClosed.
func TestCloseDuringCalls(t *testing.T) {
	for round := 0; round < 5; round++ {
		engine := load(t)
		tokenizer := must(engine.Tokenizer())
		format := must(tokenizer.NewChatFormat("plain"))
		chunk := must(engine.Prefill([]int32{1, 7, 9}, 0))
		cache := must(engine.NewCache(nil, chunk))
		var group sync.WaitGroup
		for number := 0; number < 16; number++ {
			group.Add(1)
			go func(number int) {
				defer group.Done()
				for {
					_, err := DecodeStep(cache)
					if err == nil {
						_, err = engine.NewCache(nil, chunk)
					}
					if err == nil {
						_, err = tokenizer.Encode("x", 0)
					}
					if err == nil {
						_, err = format.Render([]Message{{RoleUser, "x"}}, 0)
					}
					if err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Error(err)
						}
						return
					}
				}
			}(number)
		}
		time.Sleep(20 * time.Millisecond)
		for _, closer := range []interface{ Close() error }{engine, chunk, tokenizer, format, cache} {
			closer.Close()
		}
		group.Wait()
	}
}

func residentBytes() int {
	var size, resident int
	must(fmt.Sscan(string(must(os.ReadFile("/proc/self/statm"))), &size, &resident))
	return resident * os.Getpagesize()
}

// goBytes is how many bytes Go's heap has given out to what can still be reached.
func goBytes() int {
	runtime.GC()
	runtime.GC() // what had a finalizer goes the second time
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

// grows tells whether count rounds, after as many to warm up, leave memory behind. What the heaps have given out tells
// nearly exactly; what the process has in memory also shows what is mapped, but varies with the heaps' holes and
// threads. So what leaks is what grows every time: the rest settles.
func grows(what string, count int, round func()) bool {
	// Another thread would have another part of C's heap, with holes of its own.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	rounds := func() {
		for i := 0; i < count; i++ {
			round()
		}
	}
	rounds()
	for attempt := 0; attempt < 3; attempt++ {
		managed, heap, resident := goBytes(), cheap.Bytes(), residentBytes()
		rounds()
		managed, heap, resident = goBytes()-managed, cheap.Bytes()-heap, residentBytes()-resident
		fmt.Printf("%d %s: Go's heap %d bytes more, C's heap %d bytes more, resident %d KiB more\n",
			count, what, managed, heap, resident/1024)
		if managed < 64<<10 && heap < 64<<10 && resident < 32<<20 {
			return false
		}
	}
	return true
}

// 10,000 rounds of everything but engines, which load a model, and 100 of these. Takes a while: not with -short.
func TestRoundsLeaveNoMemoryBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	engine := load(t)
	defer engine.Close()
	chunk := must(engine.Prefill([]int32{1, 7, 9}, 0))
	defer chunk.Close()
	round := func() {
		tokenizer := must(engine.Tokenizer())
		stream := must(tokenizer.NewTextStream())
		must(stream.Push(273))
		format := must(tokenizer.NewChatFormat("plain"))
		must(format.Render([]Message{{RoleUser, "Name"}}, 0))
		again := must(engine.Prefill([]int32{1, 7, 9}, 0))
		cache := must(engine.NewCache(&CacheOptions{Composition: ComposeIndependent}, chunk, again))
		if err := cache.SetSampling(SamplingOptions{Temperature: 1}); err != nil {
			t.Fatal(err)
		}
		fork := must(cache.Fork())
		if _, err := tokenizer.Find("no such piece"); err == nil || len(must(fork.Tokens())) != 6 {
			t.Fatal(err)
		}
		generation := must(fork.Generate(context.Background(), nil, &endless))
		must(generation.Descriptor())
		changing := endless
		changing.Logits = func([]int32, []float32) error { return nil }
		must(cache.Generate(context.Background(), []int32{7}, &changing)).Close()
		for _, closer := range []interface{ Close() error }{tokenizer, stream, format, again, cache, fork, generation} {
			closer.Close()
		}
	}
	if grows("rounds", 10000, round) || grows("engines", 100, func() { load(t).Close() }) {
		t.Error("memory grows")
	}
}

// What does leak is noticed, on either heap.
func TestRoundsThatLeak(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	tokenizer := must(LoadTokenizer(model))
	defer tokenizer.Close()
	var streams []*TextStream
	var texts [][]byte
	if !grows("forgotten streams", 10000, func() { streams = append(streams, must(tokenizer.NewTextStream())) }) ||
		!grows("forgotten texts", 10000, func() { texts = append(texts, make([]byte, 32)) }) {
		t.Error("a leak went unnoticed")
	}
	runtime.KeepAlive(streams)
	runtime.KeepAlive(texts)
}

// What a call costs that does nothing.
func BenchmarkQuery(b *testing.B) {
	engine := load(b)
	defer engine.Close()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		if layers, err := engine.Query(EngineNumLayers); err != nil || layers != 6 {
			b.Fatal(layers, err)
		}
	}
}
