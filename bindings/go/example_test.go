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
	prefill := func(text string, flags nanolith.EncodeFlags, level int32) *nanolith.Chunk {
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
		"in as few words as possible.", nanolith.EncodeAddBos, 0)
	defer system.Close()
	record := prefill("<|doc|> Boso Polm earned exactly 76 crowns. Boso Polm left on 7 July. "+
		"Boso Polm used badge TQ81. Boso Polm worked in Jewick.", 0, 1)
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
	if err := cache.Extend(question); err != nil {
		log.Fatal(err)
	}
	var answer strings.Builder
	pieces := cache.StreamText(tokenizer, 32)
	for pieces.Next(context.Background()) {
		answer.WriteString(pieces.Text())
	}
	if err := pieces.Err(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.TrimSpace(answer.String()))
	// Output: Jewick
}
