package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// fakeServer makes a server of this test binary: one that scores an utterance by its length, or one that ends at once.
const fakeServer = "ASSAY_BENCH_FAKE_SERVER"

func TestMain(m *testing.M) {
	if address := os.Getenv(fakeServer); address != "" {
		if err := serveLengths(address); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m)
}

func sentences(t *testing.T, texts ...string) []Response {
	t.Helper()
	out := make([]Response, len(texts))
	for i, text := range texts {
		out[i] = response(t, text, 100)
	}
	return out
}

func TestCodecs(t *testing.T) {
	batch := sentences(t, "Good. Bad.", "Fine.")
	for _, tc := range []struct {
		name           string
		codec          codec
		body, answer   string
		scores         []float64
		short, trouble string
	}{
		{
			"own", assayCodec{}, `{"responses":[{"response":"Good. Bad."},{"response":"Fine."}]}`,
			`{"results":[{"violation":0.75,"reward":1},{"violation":0.25}]}`, []float64{0.75, 0.25},
			`{"results":[]}`, "answered 0 results to 2",
		},
		{
			"query", queryCodec{}, `{"query":["Good. Bad.","Fine."],"prompts":["",""]}`,
			`{"rewards":[0.25,0.75]}`, []float64{-0.25, -0.75}, `{"rewards":[1]}`, "answered 1 rewards to 2",
		},
		{
			"utterances", utteranceCodec{}, `{"query":["Good.","Bad.","Fine."]}`,
			`{"rewards":[-1,2.5,-3]}`, []float64{2.5, -3}, `{"rewards":[1,2]}`, "answered 2 scores of utterances to 3",
		},
		{
			"classify", classifyCodec{}, `{"model":"model","input":["Good.","Bad.","Fine."]}`,
			`{"data":[[{"label":"compliant","score":0.9},{"label":"violation","score":0.1}],[{"label":"violation","score":0.8}],[{"label":"violation","score":0.2}]]}`,
			[]float64{0.8, 0.2}, `{"data":[]}`, "answered 0 scores of utterances to 3",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			body, err := tc.codec.Encode(batch)
			require.NoError(t, err)
			require.JSONEq(t, tc.body, string(body))
			scores, err := tc.codec.Decode([]byte(tc.answer), batch)
			require.NoError(t, err)
			require.Equal(t, tc.scores, scores)
			_, err = tc.codec.Decode([]byte(tc.short), batch)
			require.ErrorContains(t, err, tc.trouble)
			_, err = tc.codec.Decode([]byte("no"), batch)
			require.Error(t, err)
		})
	}
}

// slow takes a second for a request, counts how many it has at once, and refuses the texts named.
type slow struct {
	mu        sync.Mutex
	now, most int
	refuse    string
}

func (s *slow) Ask(_ context.Context, body []byte) ([]byte, error) {
	s.mu.Lock()
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	<-time.After(time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
	if string(body) == s.refuse {
		return nil, errors.New("refused")
	}
	return body, nil
}

// lengths is a codec whose score is the length of a text.
type lengths struct{}

func (lengths) Encode(batch []Response) ([]byte, error) { return []byte(batch[0].Text), nil }
func (lengths) Decode(_ []byte, batch []Response) ([]float64, error) {
	var out []float64
	for _, r := range batch {
		out = append(out, float64(len(r.Text)))
	}
	return out, nil
}

func TestRun(t *testing.T) {
	work := sentences(t, "a", "bb", "ccc", "dddd", "eeeee", "ffffff", "g")
	synctest.Test(t, func(t *testing.T) {
		server := &slow{refuse: "ccc"}
		l, err := run(t.Context(), server, lengths{}, Case{Work: work, Size: 2, Concurrency: 3}, 0)
		require.NoError(t, err)
		require.Equal(t, 3, server.most)
		require.Equal(t, 2*time.Second, l.Elapsed)
		require.Equal(t, slices.Repeat([]time.Duration{time.Second}, 3), l.Latencies)
		require.Equal(t, 1, l.Failed)
		require.EqualError(t, l.LastError, "refused")
		require.Len(t, l.Answered, 5)
		require.Equal(t, []float64{1, 2, 0, 0, 5, 6, 1}, l.Scores)
		require.Equal(t, []bool{true, true, false, false, true, true, true}, l.Scored)
	})
	synctest.Test(t, func(t *testing.T) {
		l, err := run(t.Context(), &slow{}, lengths{}, Case{Work: work, Size: 1, Concurrency: 1}, 1500*time.Millisecond)
		require.NoError(t, err)
		require.Len(t, l.Answered, 2, "what had left when the time was over")
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(500*time.Millisecond, cancel)
		_, err := run(ctx, &slow{}, lengths{}, Case{Work: work, Size: 1, Concurrency: 1}, 0)
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestPercentile(t *testing.T) {
	var l Load
	require.Zero(t, l.Percentile(50))
	for i := range 200 {
		l.Latencies = append(l.Latencies, time.Duration(i+1))
	}
	require.Equal(t, []time.Duration{1, 100, 198, 200}, []time.Duration{l.Percentile(0), l.Percentile(50), l.Percentile(99), l.Percentile(100)})
}
