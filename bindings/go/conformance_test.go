package nanolith

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const root = "../.."

// failure is a scenario that can't be run, as against an error of the library.
type failure string

func (f failure) Error() string { return string(f) }

// state is what a scenario has made so far.
type state struct {
	engine      *Engine
	tokenizer   *Tokenizer
	format      *ChatFormat
	tokens      map[string][]int32
	chunks      map[string]*Chunk
	caches      map[string]*Cache
	generations map[string]*Generation
	problem     *Error // of the latest error line
}

func newState() *state {
	return &state{tokens: map[string][]int32{}, chunks: map[string]*Chunk{}, caches: map[string]*Cache{},
		generations: map[string]*Generation{}}
}

func (s *state) close() {
	if s.engine != nil {
		s.engine.Close()
	}
	if s.tokenizer != nil {
		s.tokenizer.Close()
	}
	if s.format != nil {
		s.format.Close()
	}
	for _, chunk := range s.chunks {
		chunk.Close()
	}
	for _, cache := range s.caches {
		cache.Close()
	}
	for _, generation := range s.generations {
		generation.Close()
	}
}

func unquote(word string) string {
	if word == "%" {
		return ""
	}
	text, err := url.PathUnescape(word)
	if err != nil {
		panic(err)
	}
	return text
}

func folder(word string) string {
	text := strings.ReplaceAll(unquote(word), "@model", filepath.Join(root, "examples/model"))
	text = strings.ReplaceAll(text, "@text", filepath.Join(root, "tests/text/fixtures"))
	return strings.ReplaceAll(text, "@work", os.Getenv("NANOLITH_WORK"))
}

func integer[T ~int32 | ~int64 | ~uint32 | ~uint64 | ~int](word string) T {
	value, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		panic(err)
	}
	return T(value)
}

func real(word string) float64 {
	value, err := strconv.ParseFloat(word, 64)
	if err != nil {
		panic(err)
	}
	return value
}

func words[T any](values []T) (result []string) {
	for _, value := range values {
		result = append(result, fmt.Sprint(value))
	}
	return result
}

func highest(values []float32) (best int) {
	for i := range values {
		if values[i] > values[best] {
			best = i
		}
	}
	return best
}

func several[T any](all map[string]*T, names []string) (result []*T) {
	for _, name := range names {
		result = append(result, all[name]) // "null" is none
	}
	return result
}

func (s *state) load(settings []string) error {
	var model string
	var options EngineOptions
	for _, setting := range settings {
		key, value, _ := strings.Cut(setting, "=")
		switch key {
		case "model":
			model = folder(value)
		case "device":
			options.Device = value
		case "dtype":
			options.Dtype = integer[Dtype](value)
		case "page_size":
			options.PageSize = integer[int64](value)
		case "num_pages":
			options.NumPages = integer[int64](value)
		case "max_context":
			options.MaxContext = integer[int64](value)
		case "max_batch_tokens":
			options.MaxBatchTokens = integer[int64](value)
		case "threads":
			options.Threads = integer[int64](value)
		default:
			return failure("unknown option " + key)
		}
	}
	engine, err := NewEngine(model, &options)
	if err != nil {
		return err
	}
	if s.engine != nil {
		s.engine.Close()
	}
	s.engine = engine
	return nil
}

func sampling(settings []string) (options SamplingOptions) {
	for _, setting := range settings {
		key, value, _ := strings.Cut(setting, "=")
		switch key {
		case "temperature":
			options.Temperature = real(value)
		case "top_k":
			options.TopK = integer[int64](value)
		case "top_p":
			options.TopP = real(value)
		case "min_p":
			options.MinP = real(value)
		case "seed":
			options.Seed = integer[int64](value)
		case "biased_token":
			options.BiasedTokens = append(options.BiasedTokens, value)
		case "banned_token":
			options.BannedTokens = append(options.BannedTokens, integer[int64](value))
		case "allowed_token":
			options.AllowedTokens = append(options.AllowedTokens, integer[int64](value))
		}
	}
	return options
}

func (s *state) loadTokenizer(from string) (err error) {
	var tokenizer *Tokenizer
	if from == "engine" {
		tokenizer, err = s.engine.Tokenizer()
	} else {
		tokenizer, err = LoadTokenizer(folder(from))
	}
	if err == nil {
		if s.tokenizer != nil {
			s.tokenizer.Close()
		}
		s.tokenizer = tokenizer
	}
	return err
}

func (s *state) makeFormat(name string) error {
	format, err := s.tokenizer.NewChatFormat(name)
	if err == nil {
		if s.format != nil {
			s.format.Close()
		}
		s.format = format
	}
	return err
}

// render takes the flags, and a role and a content for each message.
func (s *state) render(operation string, a []string) (*RenderedChat, error) {
	if strings.HasSuffix(operation, "_json") { // a has the flags, the number of messages and a JSON object
		return s.format.RenderJSON(unquote(a[2]), integer[int](a[1]), integer[ChatFlags](a[0]))
	}
	var messages []Message
	for i := 1; i+1 < len(a); i += 2 {
		messages = append(messages, Message{integer[Role](a[i]), unquote(a[i+1])})
	}
	return s.format.Render(messages, integer[ChatFlags](a[0]))
}

// errImpossible is what this language can't say: an option's zero value means its default.
var errImpossible = failure("can't be said")

func (s *state) start(cache *Cache, tokens []int32, settings []string) (*Generation, error) {
	var options GenerationOptions
	for _, setting := range settings {
		key, value, _ := strings.Cut(setting, "=")
		switch key {
		case "max_tokens":
			options.MaxTokens = integer[int64](value)
		case "min_tokens":
			options.MinTokens = integer[int64](value)
		case "stop_token":
			options.StopTokens = append(options.StopTokens, integer[int64](value))
		case "end_tokens":
			if value == "2" {
				return nil, errImpossible
			}
			options.EndTokens = Bool(value == "1")
		case "stop_text":
			options.StopTexts = append(options.StopTexts, unquote(value))
		case "deadline_ms":
			options.DeadlineMs = integer[int64](value)
		case "priority":
			options.Priority = integer[int64](value)
		case "buffer_tokens":
			if value == "0" {
				return nil, errImpossible
			}
			options.BufferTokens = integer[int64](value)
		case "text":
			options.Text = Bool(value == "1")
		case "choice":
			options.Choices = append(options.Choices, unquote(value))
		case "regex":
			options.Regex = unquote(value)
		case "json_schema":
			options.JsonSchema = unquote(value)
		case "json_object":
			options.JsonObject = Bool(value == "1")
		case "grammar":
			options.Grammar = unquote(value)
		case "force":
			token := integer[int](value)
			options.Logits = func(_ []int32, logits []float32) error {
				force(logits, token)
				return nil
			}
		default:
			return nil, failure("unknown option " + key)
		}
	}
	return cache.Generate(context.Background(), tokens, &options)
}

// read gives why the generation ended, and the text and the tokens until then.
func read(generation *Generation) ([]string, error) {
	var text strings.Builder
	var tokens []int32
	for {
		piece, err := generation.Next()
		text.WriteString(piece.Text)
		tokens = append(tokens, piece.Tokens...)
		if err == io.EOF {
			return append([]string{fmt.Sprint(int32(generation.End())), text.String()}, words(tokens)...), nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func next(generation *Generation, timeoutMs int64) error {
	var err error
	if timeoutMs < 0 {
		_, err = generation.Next()
	} else {
		_, err = generation.NextWithin(time.Duration(timeoutMs) * time.Millisecond)
	}
	return err
}

func (s *state) cancel(name string) error {
	if generation, found := s.generations[name]; found {
		return generation.Cancel()
	}
	if name == "engine" {
		return s.engine.Cancel()
	}
	return s.caches[name].Cancel()
}

func (s *state) details(expected []string) error {
	word := func(value int64) string { return strings.ReplaceAll(fmt.Sprint(value), "-1", "-") }
	found := []string{word(s.problem.Index), word(s.problem.Needed), word(s.problem.Available)}
	if strings.Join(found, " ") != strings.Join(expected, " ") {
		return failure("gave " + strings.Join(found, " "))
	}
	return nil
}

func (s *state) stream(tokens []int32) (result []string, err error) {
	stream, err := s.tokenizer.NewTextStream()
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	for _, token := range tokens {
		text, err := stream.Push(token)
		if err != nil {
			return nil, err
		}
		result = append(result, text)
	}
	text, err := stream.Finish()
	return append(result, text), err
}

// execute does one line, and gives the words of its result; texts are not quoted.
func (s *state) execute(line []string, expected int) (result []string, err error) {
	operation, a := line[0], line[1:]
	number := func(value int64, err error) ([]string, error) { return []string{fmt.Sprint(value)}, err }
	text := func(value string, err error) ([]string, error) { return []string{value}, err }
	switch operation {
	case "engine":
		return nil, s.load(a)
	case "tokenizer":
		return nil, s.loadTokenizer(a[0])
	case "tokens":
		tokens := []int32{}
		for _, word := range a[1:] {
			tokens = append(tokens, integer[int32](word))
		}
		s.tokens[a[0]] = tokens
		return nil, nil
	case "chunk":
		chunk, err := s.engine.Prefill(s.tokens[a[1]], integer[Level](a[2]), several(s.chunks, a[3:])...)
		if err == nil {
			s.chunks[a[0]] = chunk
		}
		return nil, err
	case "tenant":
		tenant, err := s.engine.Tenant(unquote(a[0]))
		if err == nil {
			s.engine.Close()
			s.engine = tenant
		}
		return nil, err
	case "priority":
		return nil, s.chunks[a[0]].SetPriority(integer[Priority](a[1]))
	case "retain":
		s.chunks[a[0]], err = s.chunks[a[1]].Retain()
		return nil, err
	case "cache":
		composition, known := map[string]Composition{"exact": ComposeExact, "independent": ComposeIndependent}[a[1]]
		if !known {
			composition = integer[Composition](a[1])
		}
		cache, err := s.engine.NewCache(&CacheOptions{Composition: composition}, several(s.chunks, a[2:])...)
		if err == nil {
			s.caches[a[0]] = cache
		}
		return nil, err
	case "fork":
		fork, err := s.caches[a[1]].Fork()
		if err == nil {
			s.caches[a[0]] = fork
		}
		return nil, err
	case "extend":
		return nil, s.caches[a[0]].Extend(s.tokens[a[1]])
	case "truncate":
		return nil, s.caches[a[0]].Truncate(integer[int](a[1]))
	case "sampling":
		return nil, s.caches[a[0]].SetSampling(sampling(a[1:]))
	case "generate":
		for ; expected > 0; expected-- {
			tokens, err := DecodeStep(s.caches[a[0]])
			if err != nil {
				return nil, err
			}
			result = append(result, words(tokens)...)
		}
		return result, nil
	case "step":
		tokens, err := DecodeStep(several(s.caches, a)...)
		return words(tokens), err
	case "generation":
		generation, err := s.start(s.caches[a[1]], s.tokens[a[2]], a[3:])
		if err == nil {
			s.generations[a[0]] = generation
		}
		return nil, err
	case "next":
		return nil, next(s.generations[a[0]], integer[int64](a[1]))
	case "read":
		return read(s.generations[a[0]])
	case "cancel":
		return nil, s.cancel(a[0])
	case "details":
		return nil, s.details(a)
	case "generation_fact":
		return number(s.generations[a[0]].Query(integer[GenerationFact](a[1])))
	case "int_bounds":
		bounds, err := IntBounds(integer[EngineOption](a[0]))
		return words([]int64{bounds.Least, bounds.Most, bounds.Default}), err
	case "all_tokens":
		tokens, err := s.caches[a[0]].Tokens()
		return words(tokens), err
	case "score":
		logprobs, err := s.caches[a[0]].Score(s.tokens[a[1]])
		scored := 0
		for _, logprob := range logprobs {
			if logprob <= 0 {
				scored++
			}
		}
		return words([]int{scored}), err
	case "score_next":
		logprobs, err := s.caches[a[0]].ScoreNext(s.tokens[a[1]], s.tokens[a[2]])
		return words([]int{highest(logprobs)}), err
	case "embed":
		vectors, err := s.caches[a[0]].Embed(s.tokens[a[1]], integer[Pooling](a[2]), integer[EmbedFlags](a[3]))
		return words([]int{len(vectors)}), err
	case "argmax":
		logits, err := s.caches[a[0]].Logits()
		best := highest(logits)
		return []string{fmt.Sprint(best)}, err
	case "engine_fact":
		return number(s.engine.Query(integer[EngineFact](a[0])))
	case "chunk_fact":
		return number(s.chunks[a[0]].Query(integer[ChunkFact](a[1])))
	case "cache_fact":
		return number(s.caches[a[0]].Query(integer[CacheFact](a[1])))
	case "tokenizer_fact":
		return number(s.tokenizer.Query(integer[TokenizerFact](a[0])))
	case "device":
		return text(s.engine.Device())
	case "end_token":
		isEnd, err := s.engine.IsEndToken(integer[int32](a[0]))
		return []string{map[bool]string{false: "0", true: "1"}[isEnd]}, err
	case "encode":
		tokens, err := s.tokenizer.Encode(unquote(a[0]), integer[EncodeFlags](a[1]))
		return words(tokens), err
	case "decode":
		return text(s.tokenizer.Decode(s.tokens[a[0]]))
	case "piece":
		return text(s.tokenizer.Piece(integer[int32](a[0])))
	case "find":
		token, err := s.tokenizer.Find(unquote(a[0]))
		return []string{fmt.Sprint(token)}, err
	case "stream":
		return s.stream(s.tokens[a[0]])
	case "describe":
		text, err := DescribeModel(folder(a[0]), DescribeText)
		for _, line := range strings.Split(text, "\n") {
			if name, value, _ := strings.Cut(line, ": "); name == unquote(a[1]) {
				result = append(result, value)
			}
		}
		return result, err
	case "format":
		return nil, s.makeFormat(unquote(a[0]))
	case "format_name":
		return text(s.format.Name())
	case "render", "render_json":
		chat, err := s.render(operation, a)
		if err != nil {
			return nil, err
		}
		return words(chat.Tokens), nil
	case "ends", "ends_json":
		chat, err := s.render(operation, a)
		if err != nil {
			return nil, err
		}
		return words(chat.Ends), nil
	case "free":
		return nil, s.free(a[0])
	}
	return nil, failure("unknown operation " + operation)
}

func (s *state) free(name string) error {
	if name == "engine" {
		return s.engine.Close()
	}
	if chunk, found := s.chunks[name]; found {
		return chunk.Close()
	}
	if cache, found := s.caches[name]; found {
		return cache.Close()
	}
	if generation, found := s.generations[name]; found {
		return generation.Close()
	}
	return failure(name + " is not there")
}

func (s *state) run(line string) error {
	call := strings.Split(line, " ")
	var expected []string
	for i, word := range call {
		if word == "=" {
			for _, word := range call[i+1:] {
				expected = append(expected, unquote(word))
			}
			call = call[:i]
			break
		}
	}
	hasResult := strings.Contains(line, " =")
	if call[0] != "error" {
		result, err := s.execute(call, len(expected))
		if err == nil && hasResult && strings.Join(result, "\x00") != strings.Join(expected, "\x00") {
			err = fmt.Errorf("gave %q", result)
		}
		return err
	}
	_, err := s.execute(call[3:], len(expected))
	if err == errImpossible {
		return nil
	}
	var problem *Error
	if errors.As(err, &problem) {
		s.problem = problem
	}
	if problem == nil || problem.Status.Error() != call[1] || !strings.Contains(problem.Text, call[2]) {
		return fmt.Errorf("gave %v", err)
	}
	return nil
}

// TestConformance runs tests/bindings/conformance/scenarios.txt; its language is described beside it. NANOLITH_WORK
// names the folder of models that tests/bindings/run.sh makes.
func TestConformance(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "tests/bindings/conformance/scenarios.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, scenario := range strings.Split(string(text), "\nscenario ")[1:] {
		lines := strings.Split(scenario, "\n")
		if !t.Run(lines[0], func(t *testing.T) {
			s := newState()
			defer s.close()
			for _, line := range lines[1:] {
				if line == "" || line[0] == '#' {
					continue
				}
				if err := s.run(line); err != nil {
					t.Fatalf("%v\n%s", err, line)
				}
			}
		}) {
			continue
		}
		fmt.Println("scenario", lines[0], "ok")
	}
}
