package api_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/api"
)

// part is a dependency that fails on demand.
type part struct {
	down  atomic.Bool
	asked atomic.Int64
}

func (p *part) ready(context.Context) error {
	p.asked.Add(1)
	if p.down.Load() {
		return errors.New("NATS is not ready: the connection is RECONNECTING")
	}
	return nil
}

func (s *service) awaitStatus(t *testing.T, path string, status int) answer {
	t.Helper()
	var got answer
	require.Eventually(t, func() bool {
		got = s.get(t, path)
		return got.StatusCode == status
	}, timeout, 5*time.Millisecond, "%s never answered %d", path, status)
	return got
}

// Streams affect readiness until the service has been ready once, and then only for
// callers that ask for them; the model always does.
func TestStreamsCountAtTheStart(t *testing.T) {
	var weights, streams part
	streams.down.Store(true)
	s := start(t, scorerOf(t, &model{}, 0), checks(
		api.Check{Name: "model", Ready: weights.ready},
		api.Check{Name: "streams", Ready: streams.ready, AtStart: true},
	))
	s.awaitStatus(t, "/readyz", 503)
	s.awaitStatus(t, "/readyz?streams=1", 503)
	streams.down.Store(false)
	s.awaitStatus(t, "/readyz", 200)

	streams.down.Store(true)
	got := s.awaitStatus(t, "/readyz?streams=1", 503)
	_, _, message := got.failure(t)
	require.Contains(t, message, "streams (NATS is not ready")
	require.NotEmpty(t, got.Header.Get("Retry-After"))
	got = s.get(t, "/readyz")
	require.Equal(t, 200, got.StatusCode, "%s", got.body)
	require.Contains(t, string(got.body), `"streams":"NATS is not ready`, "it is shown all the same")
	for _, path := range []string{"/health", "/ping", "/v2/health/ready", "/v2/models/assay/ready"} {
		require.Equal(t, 200, s.get(t, path).StatusCode, path)
	}
	require.Contains(t, string(s.get(t, "/metrics").body), `assay_check_ready{check="streams"} 0`)
	require.Contains(t, string(s.get(t, "/metrics").body), `assay_check_ready{check="model"} 1`)

	weights.down.Store(true)
	s.awaitStatus(t, "/readyz", 503)
	weights.down.Store(false)
	streams.down.Store(false)
	s.awaitStatus(t, "/readyz?streams=true", 200)

	for _, value := range []string{"perhaps", ""} {
		got = s.get(t, "/readyz?streams="+value)
		require.Equal(t, 400, got.StatusCode)
		_, field, _ := got.failure(t)
		require.Equal(t, "streams", field)
	}
	require.Equal(t, 200, s.get(t, "/readyz?streams=0&x=1").StatusCode)
}

// Unauthenticated probes cost the dependencies almost nothing: results are shared.
func TestReadinessIsShared(t *testing.T) {
	var streams part
	s := start(t, scorerOf(t, &model{}, 0), checks(api.Check{Name: "streams", Ready: streams.ready, AtStart: true}))
	began := time.Now()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 25 {
				for _, path := range []string{"/readyz", "/readyz?streams=1"} {
					r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.addr+path, strings.NewReader(""))
					if err != nil {
						return
					}
					if got, err := s.client.Do(r); err == nil {
						_ = got.Body.Close()
					}
				}
			}
		})
	}
	group.Wait()
	most := 2 + int64(time.Since(began)/time.Second)
	require.LessOrEqual(t, streams.asked.Load(), most, "400 requests ask once per second")
}

// A check that hangs delays neither independent checks, nor the others for longer
// than the timeout of a probe.
func TestHangingStreamsHoldUpNoProbe(t *testing.T) {
	var hang atomic.Bool
	s := start(t, scorerOf(t, &model{}, 0), checks(api.Check{Name: "streams", AtStart: true, Ready: func(ctx context.Context) error {
		if hang.Load() {
			<-ctx.Done()
		}
		return ctx.Err()
	}}))
	require.Equal(t, 200, s.get(t, "/readyz").StatusCode)
	hang.Store(true)
	s.awaitStatus(t, "/readyz?streams=1", 503)
	began := time.Now()
	require.Equal(t, 200, s.get(t, "/readyz").StatusCode)
	require.Less(t, time.Since(began), time.Second)
}
