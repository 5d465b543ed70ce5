package bench

import (
	"context"
	"fmt"
	"strings"
)

// SpeedCases are single responses at each concurrency, then requests of bulk responses one after another.
func SpeedCases(work []Response, concurrency []int, bulk int) []Case {
	var cases []Case
	for _, n := range concurrency {
		cases = append(cases, Case{Name: fmt.Sprintf("1 x %d", n), Work: work, Size: 1, Concurrency: n, Judged: true})
	}
	if bulk > 0 {
		name := fmt.Sprintf("bulk %d", min(bulk, len(work)))
		cases = append(cases, Case{Name: name, Work: work, Size: bulk, Concurrency: 1, Judged: true})
	}
	return cases
}

// Growth says how far GrowthCases go; 0 leaves an axis out.
type Growth struct {
	Responses int // most responses
	Sentences int // most sentences of a response
	Queue     int // most requests that wait at once
}

// GrowthCases show what a response costs as the work grows, each axis in powers of ten (queue: of four): responses of
// one sentence in requests of at most bulk, one response of more and more sentences, and more and more single responses
// at once. Sentences come again where the work has too few.
func GrowthCases(ctx context.Context, work []Response, bulk int, g Growth, tok Tokenizer, maxLength int) ([]Case, error) {
	var sentences []Response
	for _, r := range work {
		for i, u := range r.Utterances {
			sentences = append(sentences, Response{Text: u, Utterances: r.Utterances[i : i+1], Tokens: r.Tokens[i : i+1]})
		}
	}
	var cases []Case
	for n := 1; n <= g.Responses; n *= 10 {
		cases = append(cases, Case{Name: fmt.Sprintf("responses %d", n), Work: repeat(sentences, n), Size: min(n, bulk), Concurrency: 1})
	}
	for n := 1; n <= g.Sentences; n *= 10 {
		times := max(1, min(20, 1000/n))
		work, err := joined(ctx, sentences, n, times, tok, maxLength)
		if err != nil {
			return nil, err
		}
		cases = append(cases, Case{Name: fmt.Sprintf("sentences %d", n), Work: work, Size: 1, Concurrency: 1})
	}
	for n := 1; n <= g.Queue; n *= 4 {
		cases = append(cases, Case{Name: fmt.Sprintf("queue %d", n), Work: repeat(work, max(2*n, 16)), Size: 1, Concurrency: n})
	}
	return cases, nil
}

func repeat(work []Response, n int) []Response {
	out := make([]Response, n)
	for i := range out {
		out[i] = work[i%len(work)]
	}
	return out
}

// joined makes responses of n sentences each.
func joined(ctx context.Context, sentences []Response, n, times int, tok Tokenizer, maxLength int) ([]Response, error) {
	out, at := make([]Response, times), 0
	for i := range out {
		parts := make([]string, n)
		for k := range parts {
			parts[k], at = sentences[at].Text, (at+1)%len(sentences)
		}
		var err error
		if out[i], err = NewResponse(ctx, strings.Join(parts, "\n\n"), tok, maxLength); err != nil {
			return nil, err
		}
	}
	return out, nil
}
