package bench

import (
	"context"
	"strings"
)

// Uniform makes responses of equal cost: each has the same number of sentences, and each sentence the same number of
// tokens.
type Uniform struct {
	tok       Tokenizer
	maxLength int
	tokens    int
	sentences []string
	next      int
}

// NewUniform collects from the texts at most limit different sentences of exactly that many tokens, special ones
// included. It returns ErrNoWork where there are none.
func NewUniform(ctx context.Context, texts []string, tokens, limit int, tok Tokenizer, maxLength int) (*Uniform, error) {
	u := &Uniform{tok: tok, maxLength: maxLength, tokens: tokens}
	seen := map[string]bool{}
	for _, text := range texts {
		r, err := NewResponse(ctx, text, tok, maxLength)
		if err != nil {
			return nil, err
		}
		for i, sentence := range r.Utterances {
			if r.Tokens[i] != tokens || seen[sentence] {
				continue
			}
			single, err := NewResponse(ctx, sentence, tok, maxLength)
			if err != nil {
				return nil, err
			}
			if !u.fits(single, 1) { // as a separate paragraph it is segmented differently
				continue
			}
			seen[sentence] = true
			if u.sentences = append(u.sentences, sentence); len(u.sentences) == limit {
				return u, nil
			}
		}
	}
	if len(u.sentences) == 0 {
		return nil, ErrNoWork
	}
	return u, nil
}

// Sentences is the number of different sentences; after that many, they repeat.
func (u *Uniform) Sentences() int { return len(u.sentences) }

// Take makes the next n responses, of that many sentences each. It returns ErrNoWork where joined sentences are
// segmented differently.
func (u *Uniform) Take(ctx context.Context, n, sentences int) ([]Response, error) {
	out := make([]Response, 0, n)
	for failed := 0; len(out) < n; {
		parts := make([]string, sentences)
		for i := range parts {
			parts[i], u.next = u.sentences[u.next], (u.next+1)%len(u.sentences)
		}
		r, err := NewResponse(ctx, strings.Join(parts, "\n\n"), u.tok, u.maxLength)
		if err != nil {
			return nil, err
		}
		if u.fits(r, sentences) {
			out = append(out, r)
		} else if failed++; failed > len(u.sentences) {
			return nil, ErrNoWork
		}
	}
	return out, nil
}

func (u *Uniform) fits(r Response, sentences int) bool {
	for _, n := range r.Tokens {
		if n != u.tokens {
			return false
		}
	}
	return len(r.Tokens) == sentences
}
