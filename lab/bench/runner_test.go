package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
)

// serveLengths is a server for utteranceCodec.
func serveLengths(address string) error {
	if address == "none" {
		return errors.New("no such precision")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"fake":"1.0"}`) })
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /get_reward", func(w http.ResponseWriter, r *http.Request) {
		var q query
		if err := json.UnmarshalRead(r.Body, &q); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var got rewards
		for _, text := range q.Query {
			got.Rewards = append(got.Rewards, float64(len(text)))
		}
		_ = json.MarshalWrite(w, got)
	})
	return http.ListenAndServe(address, mux)
}

func fake(name string) Server {
	return Server{
		Name: name, ready: "/health", protocols: []protocol{{"/get_reward", "/get_reward", utteranceCodec{}}},
		args: func(at target) []string {
			address := "none"
			if name != "broken" {
				address = fmt.Sprintf("127.0.0.1:%d", at.port)
			}
			return []string{"env", fakeServer + "=" + address, os.Args[0]}
		},
	}
}

func TestRunAlternatesAndResumes(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc here")
	}
	dir := t.TempDir()
	records, err := OpenRecords(filepath.Join(dir, "results.jsonl"))
	require.NoError(t, err)
	work := sentences(t, "Good. Bad.", "Fine.", "It was a long day.", "No.")
	var done []string
	ctx, stop := context.WithCancel(t.Context())
	cfg := Config{
		Dir: Dir{Path: dir, Notify: func(string) {}}, Servers: []Server{fake(Reference), fake("broken"), fake("other")},
		Cases:       func(context.Context, Model) ([]Case, error) { return SpeedCases(work, []int{1, 3}, 2), nil },
		Repetitions: 2, Threads: 1, Cores: 2, StartLimit: 30 * time.Second, Versions: map[string]string{"assay": "v1"},
		Progress: func(r Record) {
			done = append(done, fmt.Sprintf("%d %s %s", r.Repetition, r.Server, r.Case))
			if len(done) == 4 {
				stop()
			}
		},
	}
	models := []Model{{Name: "tiny", Shape: Shape{Hidden: 2, Layers: 1, Intermediate: 2}}}
	require.ErrorIs(t, Run(ctx, cfg, models, records), context.Canceled)
	first := []string{"1 " + Reference + " 1 x 1", "1 " + Reference + " 1 x 3", "1 " + Reference + " bulk 2", "1 broken start"}
	require.Equal(t, first, done)

	require.NoError(t, Run(t.Context(), cfg, models, records))
	again := []string{"1 broken start", "1 other 1 x 1", "1 other 1 x 3", "1 other bulk 2"}
	reverse := []string{
		"2 other 1 x 1", "2 other 1 x 3", "2 other bulk 2", "2 broken start",
		"2 " + Reference + " 1 x 1", "2 " + Reference + " 1 x 3", "2 " + Reference + " bulk 2",
	}
	require.Equal(t, slices.Concat(again, reverse), done[len(first):])

	for _, r := range records.All() {
		if r.Server == "broken" {
			require.Contains(t, r.Error, "no such precision")
			continue
		}
		require.Empty(t, r.Error)
		require.Equal(t, []int{4, 5}, []int{r.Responses, r.Utterances})
		require.Equal(t, map[string]string{"assay": "v1"}, r.Versions)
		require.Positive(t, r.Seconds)
		require.Positive(t, r.Peak)
		if r.Server == "other" {
			require.NotNil(t, r.Agreement)
			require.InDelta(t, 1, *r.Agreement, 1e-12)
		}
	}
	before := len(done)
	cfg.Servers = cfg.Servers[2:]
	require.NoError(t, Run(t.Context(), cfg, models, records))
	require.Len(t, done, before, "nothing is measured twice")
}
