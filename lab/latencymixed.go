package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"text/tabwriter"
	"time"

	"assay/lab/bench"
	"assay/lab/load"
	"assay/lab/stats"
)

// responseSource makes the next n responses to score.
type responseSource func(n int) ([]bench.Response, error)

// mixedWork makes responses of different sizes.
type mixedWork struct {
	texts  []bench.Response
	single []bench.Response // one sentence of each text
	random *rand.Rand
}

// mixedTexts is the maximum number of texts that mixedWork takes.
const mixedTexts = 5000

func newMixedWork(ctx context.Context, texts []string, seed uint64, tok bench.Tokenizer, maxLength int) (*mixedWork, error) {
	m := &mixedWork{random: rand.New(rand.NewPCG(seed, 0))}
	for _, text := range texts[:min(mixedTexts, len(texts))] {
		r, err := bench.NewResponse(ctx, text, tok, maxLength)
		if err != nil {
			return nil, err
		}
		single, err := bench.NewResponse(ctx, r.Utterances[m.random.IntN(len(r.Utterances))], tok, maxLength)
		if err != nil {
			return nil, err
		}
		m.texts, m.single = append(m.texts, r), append(m.single, single)
	}
	return m, nil
}

// take makes n responses: each is a sentence or a text, both equally likely.
func (m *mixedWork) take(n int) ([]bench.Response, error) {
	out := make([]bench.Response, n)
	for i := range out {
		from := m.texts
		if m.random.IntN(2) == 0 {
			from = m.single
		}
		out[i] = from[m.random.IntN(len(from))]
	}
	return out, nil
}

// sizes are the latencies of responses by their number of sentences.
type sizes []sizeClass

type sizeClass struct {
	name      string
	most      int // sentences
	latencies []time.Duration
}

func newSizes() sizes {
	return sizes{{name: "1", most: 1}, {name: "2 to 8", most: 8}, {name: "9 to 20", most: 20}, {name: "21 and more"}}
}

func (s sizes) add(responses []bench.Response, l load.Result) {
	if s == nil {
		return
	}
	for i, latency := range l.ByRequest {
		n := len(responses[i].Utterances)
		at := slices.IndexFunc(s, func(c sizeClass) bool { return n <= c.most || c.most == 0 })
		s[at].latencies = append(s[at].latencies, latency)
	}
}

// write prints nothing where there are no classes.
func (s sizes) write(w io.Writer) error {
	if s == nil {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "sentences\trequests\tp50 ms\tp90 ms\tp99 ms\tlongest ms\t")
	for _, c := range s {
		if len(c.latencies) == 0 {
			continue
		}
		slices.Sort(c.latencies)
		ms := func(p int) float64 { return stats.Milliseconds(stats.Percentile(c.latencies, p)) }
		fmt.Fprintf(table, "%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t\n", c.name, len(c.latencies), ms(50), ms(90), ms(99), ms(100))
	}
	return table.Flush()
}
