package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// fakeServer turns this test binary into a server: one that scores an utterance by its length, or one that exits
// immediately.
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
			"assay", assayCodec{}, `{"responses":[{"response":"Good. Bad."},{"response":"Fine."}]}`,
			`{"results":[{"violation":0.75,"reward":1},{"violation":0.25}]}`, []float64{0.75, 0.25},
			`{"results":[]}`, "returned 0 results, want 2",
		},
		{
			"query", queryCodec{}, `{"query":["Good. Bad.","Fine."],"prompts":["",""]}`,
			`{"rewards":[0.25,0.75],"extra_logs":{"violation":[0.5,0.75]}}`, []float64{0.5, 0.75}, `{"rewards":[1,1]}`, "returned 0 violations, want 2",
		},
		{
			"utterances", utteranceCodec{}, `{"query":["Good.","Bad.","Fine."]}`,
			`{"rewards":[-1,2.5,-3]}`, []float64{2.5, -3}, `{"rewards":[1,2]}`, "returned 2 scores of utterances, want 3",
		},
		{
			"classify", classifyCodec{}, `{"model":"model","input":["Good.","Bad.","Fine."]}`,
			`{"data":[[{"label":"compliant","score":0.9},{"label":"violation","score":0.1}],[{"label":"violation","score":0.8}],[{"label":"violation","score":0.2}]]}`,
			[]float64{0.8, 0.2}, `{"data":[]}`, "returned 0 scores of utterances, want 3",
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

// replies is a transport that echoes requests and rejects one of them.
type replies struct{ refuse string }

func (r replies) Send(_ context.Context, body []byte) ([]byte, error) {
	if string(body) == r.refuse {
		return nil, errors.New("refused")
	}
	return body, nil
}

func (replies) Close() {}

// lengths is a codec whose score is the length of a text.
type lengths struct{}

func (lengths) Encode(batch []Response) ([]byte, error) { return []byte(batch[0].Text), nil }

func (lengths) Decode(reply []byte, batch []Response) ([]float64, error) {
	if string(reply) != batch[0].Text {
		return nil, errors.New("the reply to another request")
	}
	var out []float64
	for _, r := range batch {
		out = append(out, float64(len(r.Text)))
	}
	return out, nil
}

func TestScoreCase(t *testing.T) {
	work := sentences(t, "a", "bb", "ccc", "dddd", "eeeee", "ffffff", "g")
	got, err := scoreCase(t.Context(), replies{refuse: "ccc"}, lengths{}, Case{Work: work, Size: 2, Concurrency: 3}, 0)
	require.NoError(t, err)
	require.Len(t, got.Latencies, 3)
	require.Equal(t, 1, got.Failed)
	require.EqualError(t, got.LastError, "refused")
	require.Len(t, got.answered, 5)
	require.Equal(t, []float64{1, 2, 0, 0, 5, 6, 1}, got.scores)
	require.Equal(t, []bool{true, true, false, false, true, true, true}, got.scored)

	got, err = scoreCase(t.Context(), replies{}, lengths{}, Case{Work: work, Size: 1, Concurrency: 1}, time.Nanosecond)
	require.NoError(t, err)
	require.Less(t, len(got.answered), len(work), "no request leaves after the limit")
}
