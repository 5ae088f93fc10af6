package nanolith_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"nanolith"
)

func Example() {
	engine, err := nanolith.NewEngine("../../examples/model", &nanolith.EngineOptions{Device: "cpu"})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	tokenizer, err := engine.Tokenizer()
	if err != nil {
		log.Fatal(err)
	}
	defer tokenizer.Close()
	prefill := func(text string, flags nanolith.EncodeFlags, level nanolith.Level) *nanolith.Chunk {
		tokens, err := tokenizer.Encode(text, flags)
		if err != nil {
			log.Fatal(err)
		}
		chunk, err := engine.Prefill(tokens, level)
		if err != nil {
			log.Fatal(err)
		}
		return chunk
	}
	system := prefill("<|system|> Each document is one record. Answer each question from the records, "+
		"in as few words as possible.", nanolith.EncodeAddBos, nanolith.LevelSystem)
	defer system.Close()
	record := prefill("<|doc|> Boso Polm earned exactly 76 crowns. Boso Polm left on 7 July. "+
		"Boso Polm used badge TQ81. Boso Polm worked in Jewick.", 0, nanolith.LevelContext)
	defer record.Close()

	cache, err := engine.NewCache(&nanolith.CacheOptions{Composition: nanolith.ComposeIndependent}, system, record)
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()
	question, err := tokenizer.Encode("<|user|> Name the place where Boso Polm worked.<|assistant|>", 0)
	if err != nil {
		log.Fatal(err)
	}
	generation, err := cache.Generate(context.Background(), question, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer generation.Close()
	var answer strings.Builder
	for piece := range generation.Pieces() { // as they come
		answer.WriteString(piece.Text)
	}
	if err := generation.Err(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.TrimSpace(answer.String()))
	// Output: Jewick
}
