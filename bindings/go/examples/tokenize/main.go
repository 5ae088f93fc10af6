// Shows the tokens of a text.
//
//	go run nanolith/examples/tokenize [MODEL_FOLDER [TEXT]]
package main

import (
	"fmt"
	"log"
	"os"

	"nanolith"
)

func main() {
	model, text := "examples/model", "<|user|> Name the place where Boso Polm worked: Zürich?"
	if len(os.Args) > 1 {
		model = os.Args[1]
	}
	if len(os.Args) > 2 {
		text = os.Args[2]
	}
	if err := run(model, text); err != nil {
		log.Fatal(err)
	}
}

func run(model, text string) error {
	tokenizer, err := nanolith.LoadTokenizer(model)
	if err != nil {
		return err
	}
	defer tokenizer.Close()
	tokens, err := tokenizer.Encode(text, nanolith.EncodeAddBos)
	if err != nil {
		return err
	}
	for _, token := range tokens {
		piece, err := tokenizer.Piece(token)
		if err != nil {
			return err
		}
		fmt.Println(token, piece)
	}
	decoded, err := tokenizer.Decode(tokens)
	fmt.Println(decoded)
	return err
}
