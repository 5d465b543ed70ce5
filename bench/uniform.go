package bench

import (
	"context"
	"strings"
)

// Uniform makes responses of one length: each of as many sentences, and each sentence of as many tokens, so that none
// is more work than another.
type Uniform struct {
	tok       Tokenizer
	maxLength int
	tokens    int
	sentences []string
	next      int
}

// NewUniform collects from the texts at most most different sentences of exactly that many tokens, special ones
// included. It returns ErrNoWork where there is none.
func NewUniform(ctx context.Context, texts []string, tokens, most int, tok Tokenizer, maxLength int) (*Uniform, error) {
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
			if !u.fits(single, 1) { // a paragraph of its own would cut it otherwise
				continue
			}
			seen[sentence] = true
			if u.sentences = append(u.sentences, sentence); len(u.sentences) == most {
				return u, nil
			}
		}
	}
	if len(u.sentences) == 0 {
		return nil, ErrNoWork
	}
	return u, nil
}

// Sentences is how many different ones there are: after so many, they come again.
func (u *Uniform) Sentences() int { return len(u.sentences) }

// Take makes the next n responses, of that many sentences each. It returns ErrNoWork where the sentences do not stay
// apart when they are put together.
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
