package nanolith

import (
	"context"
	"errors"
	"fmt"
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
	for i := 0; i < 2; i++ {
		for _, closer := range []interface{ Close() error }{engine, tokenizer, stream, format, chunk, cache} {
			if err := closer.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	calls := map[string]func() error{
		"engine.Query":       func() error { _, err := engine.Query(EngineNumLayers); return err },
		"engine.Device":      func() error { _, err := engine.Device(); return err },
		"engine.IsEndToken":  func() error { _, err := engine.IsEndToken(2); return err },
		"engine.Tokenizer":   func() error { _, err := engine.Tokenizer(); return err },
		"engine.Prefill":     func() error { _, err := engine.Prefill([]int32{1}, 0); return err },
		"engine.NewCache":    func() error { _, err := engine.NewCache(nil); return err },
		"tokenizer.Encode":   func() error { _, err := tokenizer.Encode("x", 0); return err },
		"tokenizer.Decode":   func() error { _, err := tokenizer.Decode([]int32{7}); return err },
		"tokenizer.Query":    func() error { _, err := tokenizer.Query(TokenizerBos); return err },
		"tokenizer.Find":     func() error { _, err := tokenizer.Find("x"); return err },
		"tokenizer.Piece":    func() error { _, err := tokenizer.Piece(7); return err },
		"tokenizer.Stream":   func() error { _, err := tokenizer.NewTextStream(); return err },
		"tokenizer.Format":   func() error { _, err := tokenizer.NewChatFormat("plain"); return err },
		"format.Name":        func() error { _, err := format.Name(); return err },
		"format.Render":      func() error { _, err := format.Render([]Message{{RoleUser, "x"}}, 0); return err },
		"zero ChatFormat":    func() error { _, err := new(ChatFormat).Name(); return err },
		"stream.Push":        func() error { _, err := stream.Push(7); return err },
		"stream.Finish":      func() error { _, err := stream.Finish(); return err },
		"chunk.Query":        func() error { _, err := chunk.Query(ChunkTokens); return err },
		"chunk.Retain":       func() error { _, err := chunk.Retain(); return err },
		"cache.Extend":       func() error { return cache.Extend([]int32{7}) },
		"cache.Fork":         func() error { _, err := cache.Fork(); return err },
		"cache.Truncate":     func() error { return cache.Truncate(1) },
		"cache.Tokens":       func() error { _, err := cache.Tokens(); return err },
		"cache.Logits":       func() error { _, err := cache.Logits(); return err },
		"cache.Query":        func() error { _, err := cache.Query(CacheTokens); return err },
		"cache.SetSampling":  func() error { return cache.SetSampling(SamplingOptions{}) },
		"DecodeStep":         func() error { _, err := DecodeStep(open, cache); return err },
		"zero Engine":        func() error { _, err := new(Engine).Query(EngineNumLayers); return err },
		"zero Cache":         func() error { return new(Cache).Extend(nil) },
		"StreamText, closed": func() error { p := cache.StreamText(tokenizer, 1); p.Next(context.Background()); return p.Err() },
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

func TestContextEndsStream(t *testing.T) {
	engine := load(t)
	defer engine.Close()
	tokenizer := must(engine.Tokenizer())
	defer tokenizer.Close()
	cache := must(engine.NewCache(nil))
	defer cache.Close()
	if err := cache.Extend(must(tokenizer.Encode("<|doc|> Boso Polm", EncodeAddBos))); err != nil {
		t.Fatal(err)
	}
	before := len(must(cache.Tokens()))
	ctx, cancel := context.WithCancel(context.Background())
	pieces := cache.StreamText(tokenizer, 1000)
	for i := 0; i < 3; i++ {
		if !pieces.Next(ctx) {
			t.Fatal(pieces.Err())
		}
	}
	cancel()
	if pieces.Next(ctx) || !errors.Is(pieces.Err(), context.Canceled) || pieces.Next(context.Background()) {
		t.Errorf("went on after cancel: %q, %v", pieces.Text(), pieces.Err())
	}
	if after := len(must(cache.Tokens())); after-before > 6 {
		t.Errorf("%d tokens for 3 pieces", after-before)
	}
}

func TestStreamEndsAfterError(t *testing.T) {
	engine := must(NewEngine(model, &EngineOptions{Device: "cpu", PageSize: 16, NumPages: 8, MaxContext: 20}))
	defer engine.Close()
	cache := must(engine.NewCache(nil))
	defer cache.Close()
	if err := cache.Extend([]int32{7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7}); err != nil {
		t.Fatal(err)
	}
	pieces := cache.StreamText(must(engine.Tokenizer()), 100)
	for pieces.Next(context.Background()) {
	}
	if !errors.Is(pieces.Err(), ErrContextFull) {
		t.Error(pieces.Err())
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
		for _, closer := range []interface{ Close() error }{tokenizer, stream, format, again, cache, fork} {
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
