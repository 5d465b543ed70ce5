package load

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// server takes a second per request, records the maximum number of requests in flight, and fails request number refuse.
type server struct {
	mu        sync.Mutex
	now, most int
	refuse    int
}

func (s *server) send(_ context.Context, i int) ([]byte, error) {
	s.mu.Lock()
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	<-time.After(time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
	if i == s.refuse {
		return nil, errors.New("refused")
	}
	return []byte{byte(i)}, nil
}

func TestClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{refuse: 1}
		r, err := Run(t.Context(), Schedule{Concurrency: 3, More: First(4)}, s.send, func(i int, reply []byte) error {
			require.Equal(t, []byte{byte(i)}, reply)
			<-time.After(time.Second) // does not count as latency
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, 3, s.most)
		require.Equal(t, slices.Repeat([]time.Duration{time.Second}, 3), r.Latencies)
		require.Equal(t, 1, r.Failed)
		require.EqualError(t, r.LastError, "refused")
		require.NoError(t, r.Err())
		require.Nil(t, r.Delays)
		require.Equal(t, 3*time.Second, r.Elapsed, "1 fails after a second, and its sender takes 3, whose check ends after 3 s")
		require.Equal(t, 1.0, r.Rate())
	})
	synctest.Test(t, func(t *testing.T) {
		r, err := Run(t.Context(), Schedule{Concurrency: 1, Pause: time.Second, More: func(_ int, elapsed time.Duration) bool {
			return elapsed < 3*time.Second
		}}, (&server{refuse: -1}).send, nil)
		require.NoError(t, err)
		require.Len(t, r.Latencies, 2, "each takes a second and is followed by a pause")
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(500*time.Millisecond, cancel)
		r, err := Run(ctx, Schedule{Concurrency: 1, More: First(7)}, (&server{}).send, nil)
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, r.Failed, "it failed after the run had ended")
	})
	r, err := Run(t.Context(), Schedule{Concurrency: 1, More: First(2)}, func(context.Context, int) ([]byte, error) { return nil, nil },
		func(int, []byte) error { return errors.New("not a score") })
	require.NoError(t, err)
	require.EqualError(t, r.Err(), "every request failed: not a score")
}

// Latency counts from when a request is due, even where all senders are busy.
func TestOpenLoop(t *testing.T) {
	for concurrency, want := range map[int][2][]time.Duration{
		8: {{time.Second, time.Second, time.Second}, {0, 0, 0}},
		1: {{time.Second, 1500 * time.Millisecond, 2000 * time.Millisecond}, {0, 500 * time.Millisecond, time.Second}},
	} {
		synctest.Test(t, func(t *testing.T) {
			due := Regular(3, 2)
			r, err := Run(t.Context(), Schedule{Concurrency: concurrency, More: First(3), Due: due}, (&server{refuse: -1}).send, nil)
			require.NoError(t, err)
			require.Equal(t, want[0], r.Latencies)
			require.Equal(t, want[1], r.Delays)
			require.Equal(t, want[0][2], r.Percentile(100))
		})
	}
}

func TestArrivals(t *testing.T) {
	require.Equal(t, []time.Duration{0, 250 * time.Millisecond, 500 * time.Millisecond}, Regular(3, 4))
	require.Equal(t, []time.Duration{0, 0, time.Second}, Bursts(3, 2, time.Second))
	times := Poisson(rand.New(rand.NewPCG(1, 2)), 10000, 100)
	require.True(t, slices.IsSorted(times))
	require.InEpsilon(t, 100, times[len(times)-1].Seconds(), 0.05)
}

func TestHTTP(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no model", http.StatusServiceUnavailable)
	}))
	defer srv.Close()
	h := NewHTTP(srv.URL, 1)
	defer h.Close()
	_, err := h.Send(t.Context(), nil)
	var status *StatusError
	require.ErrorAs(t, err, &status)
	require.Equal(t, http.StatusServiceUnavailable, status.Code)
	require.EqualError(t, err, "503 Service Unavailable: no model")
}
