// Several conversations at once, all of them after the same records: the engine answers them in batches, and one goroutine
// is enough.
//
//	go run nanolith/examples/parallel [MODEL_FOLDER]
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"nanolith"
)

const system = "<|system|> Each document is one record. Answer each question from the records, in as few words as possible."
const records = "<|doc|> Beso Bralm stayed in Troton. Beso Bralm got key KR32. Beso Bralm arrived on 20 September. " +
	"Beso Bralm paid exactly 39 crowns.<|doc|> Boso Polm earned exactly 76 crowns. Boso Polm left on 7 July. " +
	"Boso Polm used badge TQ81. Boso Polm worked in Jewick."

var questions = []string{
	"Name the place where Boso Polm worked.",
	"Name the place where Beso Bralm stayed.",
	"Name the day when Beso Bralm arrived.",
	"Name the day when Boso Polm left.",
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
	conversation, err := begin(engine, tokenizer)
	if err != nil {
		return err
	}
	defer conversation.Close()

	var generations []*nanolith.Generation
	for _, question := range questions {
		generation, err := ask(conversation, tokenizer, question)
		if err != nil {
			return err
		}
		defer generation.Close()
		generations = append(generations, generation)
	}
	for i, generation := range generations {
		answer, err := generation.Text()
		if err != nil {
			return err
		}
		fmt.Println(questions[i], strings.TrimSpace(answer))
	}
	return nil
}

// begin makes the context that all conversations share.
func begin(engine *nanolith.Engine, tokenizer *nanolith.Tokenizer) (*nanolith.Cache, error) {
	tokens, err := tokenizer.Encode(system, nanolith.EncodeAddBos)
	if err != nil {
		return nil, err
	}
	first, err := engine.Prefill(tokens, nanolith.LevelSystem)
	if err != nil {
		return nil, err
	}
	defer first.Close() // the cache keeps what it needs
	if tokens, err = tokenizer.Encode(records, 0); err != nil {
		return nil, err
	}
	second, err := engine.Prefill(tokens, nanolith.LevelContext, first)
	if err != nil {
		return nil, err
	}
	defer second.Close()
	return engine.NewCache(nil, first, second)
}

// ask begins an answer in a fork, which shares the context's pages. The generation goes on without the fork's handle.
func ask(conversation *nanolith.Cache, tokenizer *nanolith.Tokenizer, question string) (*nanolith.Generation, error) {
	cache, err := conversation.Fork()
	if err != nil {
		return nil, err
	}
	defer cache.Close()
	tokens, err := tokenizer.Encode("<|user|> "+question+"<|assistant|>", 0)
	if err != nil {
		return nil, err
	}
	return cache.Generate(context.Background(), tokens, &nanolith.GenerationOptions{MaxTokens: 32})
}
