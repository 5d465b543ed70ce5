package api_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/api"
	"assay/rewardmodel"
)

func TestQueueFull(t *testing.T) {
	m := gated()
	s := start(t, scorerOf(t, m, 1))
	responses := make(chan answer, 1)
	go func() { responses <- s.score(t, one("first")) }()
	await(t, m.entered, "the batch")

	got := s.score(t, one("second"))
	require.Equal(t, 503, got.StatusCode)
	require.Equal(t, "1", got.Header.Get("Retry-After"))
	code, _, message := got.failure(t)
	require.Equal(t, "overloaded", code)
	require.Contains(t, message, "queue is full")

	close(m.release)
	require.Equal(t, 200, await(t, responses, "the first response").StatusCode)
}

func TestErrorsOfTheScorer(t *testing.T) {
	cases := map[string]struct {
		err        error
		status     int
		code       string
		retryAfter string
	}{
		"overloaded":      {&rewardmodel.OverloadedError{RetryAfter: 2100 * time.Millisecond}, 503, "overloaded", "3"},
		"overloaded bare": {fmt.Errorf("busy: %w", rewardmodel.ErrOverloaded), 503, "overloaded", "2"},
		"closed":          {rewardmodel.ErrClosed, 503, "shutting_down", "2"},
		"not ready":       {fmt.Errorf("loading: %w", rewardmodel.ErrNotReady), 503, "not_ready", "2"},
		"model":           {fmt.Errorf("%w: secret detail", rewardmodel.ErrModel), 500, "model_failed", ""},
		"late":            {fmt.Errorf("queue: %w", context.DeadlineExceeded), 504, "deadline_exceeded", ""},
		"anything":        {errors.New("secret detail"), 500, "internal", ""},
		"not found":       {&rewardmodel.InputError{Kind: rewardmodel.KindNotFound, Field: "model", Message: "m"}, 404, "not_found", ""},
		"too large":       {&rewardmodel.InputError{Kind: rewardmodel.KindTooLarge, Message: "m"}, 413, "too_large", ""},
		"unprocessable":   {&rewardmodel.InputError{Kind: rewardmodel.KindUnprocessable, Message: "m"}, 422, "unprocessable", ""},
		"invalid":         {fmt.Errorf("w: %w", &rewardmodel.InputError{Kind: rewardmodel.KindInvalid, Message: "m"}), 400, "invalid", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := start(t, scorerFunc(func(context.Context, rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
				return rewardmodel.ScoreResponse{}, c.err
			}), config(func(cfg *api.Config) { cfg.RetryAfter = 1500 * time.Millisecond }))
			got := s.score(t, one("a"), "X-Request-Id", "abc")
			code, _, message := got.failure(t)
			require.Equal(t, c.status, got.StatusCode)
			require.Equal(t, c.code, code)
			require.Equal(t, c.retryAfter, got.Header.Get("Retry-After"))
			require.NotContains(t, message, "secret")
			if c.status == 500 {
				require.Contains(t, message, "request id abc")
				line := s.log.request(t)
				require.Equal(t, c.err.Error(), line["error"])
				require.Equal(t, "error", line["level"])
			}
		})
	}
}

func TestModelFailureIs500(t *testing.T) {
	s := start(t, scorerOf(t, &model{err: errors.New("out of memory")}, 0))
	got := s.score(t, one("a"))
	require.Equal(t, 500, got.StatusCode)
	code, _, _ := got.failure(t)
	require.Equal(t, "model_failed", code)
	require.Contains(t, s.log.request(t)["error"], "out of memory")
}

func TestNaNIs500(t *testing.T) {
	s := start(t, scorerFunc(func(context.Context, rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
		return rewardmodel.ScoreResponse{Results: []rewardmodel.Result{{ID: "a", Reward: math.NaN()}}}, nil
	}))
	got := s.score(t, one("a"))
	require.Equal(t, 500, got.StatusCode)
	code, _, _ := got.failure(t)
	require.Equal(t, "internal", code)
}

func TestPanicIs500(t *testing.T) {
	s := start(t, scorerFunc(func(context.Context, rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
		panic("secret detail")
	}))
	got := s.score(t, one("a"))
	require.Equal(t, 500, got.StatusCode)
	_, _, message := got.failure(t)
	require.NotContains(t, message, "secret")
	line := s.log.request(t)
	require.EqualValues(t, 500, line["status"])
	require.Contains(t, line["error"], "secret detail")
}

func TestOversizedBodyIsNotRequested(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0), config(func(c *api.Config) { c.MaxBody = 100 }))
	// The client waits for "100 Continue" with its body, and receives an error instead.
	require.Equal(t, 413, status(t, s.dial(t, rawPost(1000, "", "Expect: 100-continue\r\n"))))
	require.Equal(t, 413, s.score(t, one(strings.Repeat("a", 100))).StatusCode)
	require.Equal(t, 200, s.score(t, one(strings.Repeat("a", 100-len(one(""))))).StatusCode)
}
