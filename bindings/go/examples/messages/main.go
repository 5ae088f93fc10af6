// A chat as a list of messages, split into chunks along them: the system prompt and each document are messages of their
// own, computed for the first question and found in the store by the second.
//
//	go run nanolith/examples/messages [MODEL_FOLDER [FORMAT]]
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"nanolith"
)

var messages = []nanolith.Message{
	{Role: nanolith.RoleSystem,
		Content: "Each document is one record. Answer each question from the records, in as few words as possible."},
	{Role: nanolith.RoleUser, Content: "Boso Polm stayed in Drawick. Boso Polm got key GD15. " +
		"Boso Polm arrived on 22 August. Boso Polm paid exactly 50 crowns."},
	{Role: nanolith.RoleUser, Content: "Beso Bralm stayed in Troton. Beso Bralm got key KR32. " +
		"Beso Bralm arrived on 20 September. Beso Bralm paid exactly 39 crowns."},
}

func main() {
	model, format := "examples/model", ""
	if len(os.Args) > 1 {
		model = os.Args[1]
	}
	if len(os.Args) > 2 {
		format = os.Args[2]
	}
	if err := run(model, format); err != nil {
		log.Fatal(err)
	}
}

// session is what all questions share.
type session struct {
	engine    *nanolith.Engine
	tokenizer *nanolith.Tokenizer
	format    *nanolith.ChatFormat
	ownMarks  bool
}

func run(model, name string) (err error) {
	var s session
	if s.engine, err = nanolith.NewEngine(model, nil); err != nil {
		return err
	}
	defer s.engine.Close()
	if s.tokenizer, err = s.engine.Tokenizer(); err != nil {
		return err
	}
	defer s.tokenizer.Close()
	if err = s.openFormat(name); err != nil {
		return err
	}
	defer s.format.Close()
	if name, err = s.format.Name(); err != nil {
		return err
	}
	fmt.Println("The chat format is", name)
	for _, question := range []string{"Name the key that Beso Bralm got.", "Name the place where Boso Polm stayed."} {
		if err := s.ask(question); err != nil {
			return err
		}
	}
	return nil
}

// openFormat takes the named format, or the model's. The model in examples/model has marks of its own, which no format
// here knows: then the messages are taken as they are, and the caller writes the marks.
func (s *session) openFormat(name string) (err error) {
	s.format, err = s.tokenizer.NewChatFormat(name)
	if name == "" && (errors.Is(err, nanolith.ErrNotFound) || errors.Is(err, nanolith.ErrUnsupported)) {
		log.Print(err)
		s.ownMarks = true
		s.format, err = s.tokenizer.NewChatFormat("plain")
	}
	return err
}

func (s *session) ask(question string) error {
	fmt.Printf("\n> %s\n", question)
	all := append([]nanolith.Message{}, messages...)
	all = append(all, nanolith.Message{Role: nanolith.RoleUser, Content: question})
	if s.ownMarks {
		for i, mark := range []string{"<|system|> ", "<|doc|> ", "<|doc|> ", "<|user|> "} {
			all[i].Content = mark + all[i].Content
		}
		all[3].Content += "<|assistant|>"
	}
	chat, err := s.format.Render(all, nanolith.ChatAddGenerationPrompt)
	if err != nil {
		return err
	}

	// All messages but the last become chunks. Those without tokens have none: their text is in a later message's part.
	last := len(all) - 1
	var chunks []*nanolith.Chunk
	for i := range all[:last] {
		if len(chat.Message(i)) == 0 {
			continue
		}
		chunk, err := s.prefill(i, chat.Message(i))
		if err != nil {
			return err
		}
		defer chunk.Close() // the store keeps it for the next chat
		chunks = append(chunks, chunk)
	}
	cache, err := s.engine.NewCache(&nanolith.CacheOptions{Composition: nanolith.ComposeIndependent}, chunks...)
	if err != nil {
		return err
	}
	defer cache.Close()
	options := nanolith.GenerationOptions{MaxTokens: 48}
	generation, err := cache.Generate(context.Background(), chat.From(last), &options)
	if err != nil {
		return err
	}
	defer generation.Close()
	for piece := range generation.Pieces() {
		fmt.Print(piece.Text)
	}
	fmt.Println()
	return generation.Err()
}

func (s *session) prefill(index int, tokens []int32) (*nanolith.Chunk, error) {
	level := nanolith.LevelContext
	if messages[index].Role == nanolith.RoleSystem {
		level = nanolith.LevelSystem
	}
	chunk, err := s.engine.Prefill(tokens, level)
	if err != nil {
		return nil, err
	}
	computed, err := chunk.Query(nanolith.ChunkTokensComputed)
	how := "computed"
	if computed == 0 {
		how = "found in the store"
	}
	fmt.Printf("  message %d: %d tokens, %s\n", index+1, len(tokens), how)
	return chunk, err
}
