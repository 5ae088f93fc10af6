// Answers two questions from records that are computed once, each with the records in another order.
//
//	go run nanolith/examples/chat [MODEL_FOLDER]
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"nanolith"
)

const system = "<|system|> Each document is one record. Answer each question from the records, in as few words as possible."

var records = []string{
	"<|doc|> Beso Bralm stayed in Troton. Beso Bralm got key KR32. Beso Bralm arrived on 20 September. " +
		"Beso Bralm paid exactly 39 crowns.",
	"<|doc|> Jemi Nuld offered exactly 81 crowns. Jemi Nuld signed note NW84. Jemi Nuld called on 12 January. " +
		"Jemi Nuld traded in Foham.",
	"<|doc|> Boso Polm earned exactly 76 crowns. Boso Polm left on 7 July. Boso Polm used badge TQ81. " +
		"Boso Polm worked in Jewick.",
}

func main() {
	model := "examples/model"
	if len(os.Args) > 1 {
		model = os.Args[1]
	}
	if err := run(model); err != nil {
		log.Fatal(err)
	}
}

func run(model string) error {
	engine, err := nanolith.NewEngine(model, nil)
	if err != nil {
		return err
	}
	defer engine.Close()
	tokenizer, err := engine.Tokenizer()
	if err != nil {
		return err
	}
	defer tokenizer.Close()

	first, err := prefill(engine, tokenizer, system, nanolith.EncodeAddBos, nanolith.LevelSystem)
	if err != nil {
		return err
	}
	defer first.Close()
	var chunks []*nanolith.Chunk
	for _, text := range records {
		chunk, err := prefill(engine, tokenizer, text, 0, nanolith.LevelContext)
		if err != nil {
			return err
		}
		defer chunk.Close()
		chunks = append(chunks, chunk)
	}

	err = ask(engine, tokenizer, "Name the place where Boso Polm worked.", first, chunks[0], chunks[1], chunks[2])
	if err != nil {
		return err
	}
	return ask(engine, tokenizer, "Name the price that Jemi Nuld offered.", first, chunks[2], chunks[0], chunks[1])
}

func prefill(engine *nanolith.Engine, tokenizer *nanolith.Tokenizer, text string, flags nanolith.EncodeFlags,
	level nanolith.Level) (*nanolith.Chunk, error) {
	tokens, err := tokenizer.Encode(text, flags)
	if err != nil {
		return nil, err
	}
	return engine.Prefill(tokens, level)
}

func ask(engine *nanolith.Engine, tokenizer *nanolith.Tokenizer, question string, chunks ...*nanolith.Chunk) error {
	fmt.Println(">", question)
	cache, err := engine.NewCache(&nanolith.CacheOptions{Composition: nanolith.ComposeIndependent}, chunks...)
	if err != nil {
		return err
	}
	defer cache.Close()
	tokens, err := tokenizer.Encode("<|user|> "+question+"<|assistant|>", 0)
	if err != nil {
		return err
	}
	generation, err := cache.Generate(context.Background(), tokens, &nanolith.GenerationOptions{MaxTokens: 32})
	if err != nil {
		return err
	}
	defer generation.Close()
	for piece := range generation.Pieces() {
		fmt.Print(piece.Text)
	}
	if err := generation.Err(); err != nil {
		return err
	}
	reused, err := cache.Query(nanolith.CacheTokensReused)
	fmt.Printf("\n  reused %d tokens\n", reused)
	return err
}
