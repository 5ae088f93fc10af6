//go:build go1.23

package nanolith

import (
	"io"
	"iter"
)

// All goes through the pieces: for piece, err := range g.All(). An error is the last of them. Who leaves the loop before
// the end closes the generation.
func (g *Generation) All() iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		for {
			piece, err := g.Next()
			if err == io.EOF || !yield(piece, err) || err != nil {
				return
			}
		}
	}
}
