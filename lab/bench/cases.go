package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"assay/lab/load"
)

// Case is a piece of work, and how it is sent.
type Case struct {
	Name        string
	Work        []Response
	Size        int  // responses per request
	Concurrency int  // requests in flight
	Ranked      bool // compare the ranks of the scores with those of the reference
}

// caseResult is what a server did with a case.
type caseResult struct {
	load.Result
	answered []Response
	scores   []float64 // of Case.Work; finite where scored
	scored   []bool
}

// scoreCase sends the case in requests. No request is sent after limit, unless that is 0; those in flight are waited for.
// A failed request is counted; scoreCase itself fails only when ctx is done or a request cannot be encoded.
func scoreCase(ctx context.Context, to load.Transport, c codec, of Case, limit time.Duration) (caseResult, error) {
	parts := slices.Collect(slices.Chunk(of.Work, of.Size))
	bodies := make([][]byte, len(parts))
	for i, part := range parts {
		var err error
		if bodies[i], err = c.Encode(part); err != nil {
			return caseResult{}, err
		}
	}
	out := caseResult{scores: make([]float64, len(of.Work)), scored: make([]bool, len(of.Work))}
	var mu sync.Mutex
	decode := func(i int, reply []byte) error {
		scores, err := c.Decode(reply, parts[i])
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		out.answered = append(out.answered, parts[i]...)
		for k, score := range scores {
			out.scores[i*of.Size+k], out.scored[i*of.Size+k] = score, true
		}
		return nil
	}
	schedule := load.Schedule{Concurrency: min(of.Concurrency, len(bodies)), More: func(i int, elapsed time.Duration) bool {
		return i < len(bodies) && (limit == 0 || elapsed <= limit)
	}}
	var err error
	out.Result, err = load.Run(ctx, schedule, func(ctx context.Context, i int) ([]byte, error) { return to.Send(ctx, bodies[i]) }, decode)
	return out, err
}

// SpeedCases are single responses at each concurrency, then requests of bulk responses one after another.
func SpeedCases(work []Response, concurrency []int, bulk int) []Case {
	var cases []Case
	for _, n := range concurrency {
		cases = append(cases, Case{Name: fmt.Sprintf("1 x %d", n), Work: work, Size: 1, Concurrency: n, Ranked: true})
	}
	if bulk > 0 {
		name := fmt.Sprintf("bulk %d", min(bulk, len(work)))
		cases = append(cases, Case{Name: name, Work: work, Size: bulk, Concurrency: 1, Ranked: true})
	}
	return cases
}

// Growth specifies the maximum of each axis of GrowthCases; 0 skips the axis.
type Growth struct {
	Responses int // responses
	Sentences int // sentences per response
	Queue     int // concurrent requests
}

// GrowthCases show what a response costs as the work grows, each axis in powers of ten (queue: of four): responses of
// one sentence in requests of at most bulk, one response of more and more sentences, and more and more concurrent
// requests of one response. Sentences repeat where the work has too few.
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
