package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/api"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/retrain"
)

// unreachable is a fake fleet whose NATS server stops replying: every request waits
// until its context ends.
type unreachable struct {
	*fakeFleet
	away   atomic.Bool
	waited atomic.Int64 // requests without a reply
	// replies to requests for models, the state of training and statistics
	models, training, stats atomic.Int64
}

func (u *unreachable) wait(ctx context.Context) error {
	if !u.away.Load() {
		return nil
	}
	u.waited.Add(1)
	<-ctx.Done()
	return fmt.Errorf("reading: %w (last attempt: no servers)", ctx.Err())
}

func (u *unreachable) Stats(ctx context.Context) (feedback.Stats, error) {
	if err := u.wait(ctx); err != nil {
		return feedback.Stats{}, err
	}
	u.stats.Add(1)
	return u.fakeFleet.Stats(ctx)
}

func (u *unreachable) Candidates(ctx context.Context, n int) ([]feedback.Candidate, error) {
	if err := u.wait(ctx); err != nil {
		return nil, err
	}
	return u.fakeFleet.Candidates(ctx, n)
}

func (u *unreachable) Current(ctx context.Context) (retrain.Current, error) {
	if err := u.wait(ctx); err != nil {
		return retrain.Current{}, err
	}
	return u.fakeFleet.Current(ctx)
}

func (u *unreachable) Model(ctx context.Context, version string) (retrain.Model, error) {
	if err := u.wait(ctx); err != nil {
		return retrain.Model{}, err
	}
	return u.fakeFleet.Model(ctx, version)
}

func (u *unreachable) Models(ctx context.Context) ([]retrain.Model, error) {
	if err := u.wait(ctx); err != nil {
		return nil, err
	}
	u.models.Add(1)
	return u.fakeFleet.Models(ctx)
}

func (u *unreachable) Training(ctx context.Context) (api.Training, error) {
	if err := u.wait(ctx); err != nil {
		return api.Training{}, err
	}
	u.training.Add(1)
	return u.fakeFleet.Training(ctx)
}

func (u *unreachable) ready(context.Context) error {
	if u.away.Load() {
		return fmt.Errorf("NATS is not ready")
	}
	return nil
}

func withUnreachable(t *testing.T, events api.EventSource) (*unreachable, *service) {
	t.Helper()
	f, _ := withFleet(t)
	u := &unreachable{fakeFleet: f}
	return u, start(t, scorerOf(t, &model{}, 0), checks(api.Check{Name: "streams", Ready: u.ready, AtStart: true}), parts(func(p *api.Parts) {
		p.FeedbackView, p.Registry, p.Trainer, p.Events = u, u, u, events
	}))
}

// During an outage, the shared state of the fleet is returned from memory within a
// second, with its age.
func TestReadsInAnOutage(t *testing.T) {
	u, s := withUnreachable(t, nil)
	reads := []string{"/v1/models", "/v1/models/v8", "/v1/models/v7", "/v1/models/default", "/v1/feedback", "/v1/training"}
	healthy := map[string]string{}
	for _, path := range reads {
		got := s.get(t, path)
		require.Equal(t, 200, got.StatusCode, "%s: %s", path, got.body)
		require.Empty(t, got.Header.Get("Age"), path)
		healthy[path] = string(got.body)
	}
	require.Equal(t, 200, s.get(t, "/readyz").StatusCode)
	u.away.Store(true)
	for _, path := range reads {
		began := time.Now()
		got := s.get(t, path)
		require.Equal(t, 200, got.StatusCode, "%s: %s", path, got.body)
		require.Regexp(t, `^\d+$`, got.Header.Get("Age"), path)
		require.Equal(t, healthy[path], string(got.body), path)
		require.Less(t, time.Since(began), 2*time.Second, path)
	}
	for path, status := range map[string]int{"/v1/models/default": 200, "/v1/models/v99": 404} {
		before := u.waited.Load()
		got := s.get(t, path)
		require.Equal(t, status, got.StatusCode, path)
		require.EqualValues(t, 1, u.waited.Load()-before, "%s waits for NATS once", path)
		require.Equal(t, status == 200, got.Header.Get("Age") != "", path)
	}
	s.awaitStatus(t, "/readyz?streams=1", 503)
	began := time.Now()
	got := s.get(t, "/v1/feedback/candidates")
	require.Equal(t, 503, got.StatusCode, "%s", got.body)
	require.NotEmpty(t, got.Header.Get("Retry-After"))
	require.Less(t, time.Since(began), 2*time.Second)
	require.Equal(t, 200, s.do(t, "POST", "/v1/score", strings.NewReader(one("Fine."))).StatusCode)

	u.away.Store(false)
	s.awaitStatus(t, "/readyz?streams=1", 200)
	require.Empty(t, s.get(t, "/v1/models").Header.Get("Age"))
}

// Without a cached state, the reply is an immediate error that does not count as a failure of the service.
func TestReadsInAnOutageFromTheStart(t *testing.T) {
	u, s := withUnreachable(t, nil)
	u.away.Store(true)
	for _, path := range []string{"/v1/models", "/v1/models/v8", "/v1/feedback", "/v1/training"} {
		began := time.Now()
		got := s.get(t, path)
		require.Equal(t, 503, got.StatusCode, "%s: %s", path, got.body)
		code, _, message := got.failure(t)
		require.Equal(t, "not_ready", code, path)
		require.Contains(t, message, "NATS cannot be reached")
		require.NotEmpty(t, got.Header.Get("Retry-After"))
		require.Less(t, time.Since(began), 2*time.Second, path)
	}
}

// The cache is filled before the first request.
func TestReadsNeedNoReadBefore(t *testing.T) {
	u, s := withUnreachable(t, newEventLog(1))
	s.awaitStatus(t, "/readyz", 200)
	require.Equal(t, "1", follow(t, s.client, "http://"+s.addr+"/v1/events").event(t)["id"])
	require.Eventually(t, func() bool {
		return u.models.Load() > 0 && u.training.Load() > 0 && u.stats.Load() > 0
	}, timeout, 10*time.Millisecond)
	u.away.Store(true)
	for _, path := range []string{"/v1/models", "/v1/models/v8", "/v1/feedback", "/v1/training"} {
		require.Equal(t, http.StatusOK, s.get(t, path).StatusCode, path)
	}
}
