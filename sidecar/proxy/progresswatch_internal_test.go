package proxy

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	client "assay/clients/go"
)

// A session ends once text has waited for the timeout, and no earlier.
func TestProgressWatch(t *testing.T) {
	const limit = 10 * time.Second
	for name, c := range map[string]struct {
		old   bool // the service does not report progress
		do    func(w *progressWatch)
		ended time.Duration // after the start; 0: never
	}{
		"never opened": {do: func(*progressWatch) {}, ended: limit},
		"idle":         {do: func(w *progressWatch) { w.scored(0) }},
		"scored": {do: func(w *progressWatch) {
			w.scored(0)
			for i := range 20 {
				w.sent(10)
				<-time.After(limit - 1)
				w.scored(10 * (i + 1))
			}
		}},
		"late for the second piece": {do: func(w *progressWatch) {
			w.scored(0)
			w.sent(10)
			<-time.After(time.Second)
			w.sent(10)
			<-time.After(time.Second)
			w.scored(10)
		}, ended: limit + time.Second},
		"slower than what arrives": {do: func(w *progressWatch) {
			w.scored(0)
			for i := range 30 {
				w.sent(10)
				<-time.After(time.Second)
				w.scored(i)
			}
		}, ended: limit},
		"client that does not read": {do: func(w *progressWatch) {
			w.scored(0)
			w.sent(10)
			w.reporting(func() {
				<-time.After(time.Hour / 2)
				w.sent(10)
				<-time.After(time.Hour / 2)
			})
			<-time.After(limit - 1)
			w.scored(20)
		}},
		"stalled after a client that did not read": {do: func(w *progressWatch) {
			w.scored(0)
			w.sent(10)
			<-time.After(time.Second)
			w.reporting(func() { <-time.After(time.Hour) })
		}, ended: time.Hour + limit},
		"stopped meanwhile": {do: func(w *progressWatch) {
			w.scored(0)
			w.reporting(func() { w.sent(1); w.stop() })
		}},
		"stopped":        {do: func(w *progressWatch) { w.sent(1); w.stop(); w.sent(1) }},
		"an old service": {old: true, do: func(w *progressWatch) { w.sent(10); <-time.After(time.Hour); w.sent(1) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				remote := &Remote{timeout: limit}
				remote.reports.Store(!c.old)
				ctx, cancel := context.WithCancelCause(t.Context())
				begun := time.Now()
				var ended time.Duration
				defer context.AfterFunc(ctx, func() { ended = time.Since(begun) })()
				var w progressWatch
				w.start(remote, cancel)
				go c.do(&w)
				<-time.After(2 * time.Hour)
				synctest.Wait()
				require.Equal(t, c.ended, ended)
				if c.ended > 0 {
					require.ErrorContains(t, context.Cause(ctx), "--verdict-timeout, 10s")
				}
				w.stop()
			})
		})
	}
}

// What is scored counts although a client does not read what was scored before.
func TestForwardToAClientThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		remote := &Remote{timeout: 10 * time.Second}
		ctx, cancel := context.WithCancelCause(t.Context())
		s := &remoteSession{cancel: cancel, reported: make(chan struct{})}
		s.watch.start(remote, cancel)
		s.watch.sent(10)
		var released []Event
		s.forward(func(yield func(client.LiveEvent, error) bool) {
			for _, e := range []client.LiveEvent{
				{Progress: &client.LiveProgress{}},
				{Utterance: client.LiveUtterance{End: 10}},
				{Progress: &client.LiveProgress{Bytes: 10}},
			} {
				require.True(t, yield(e, nil))
			}
		}, func(e Event) {
			<-time.After(time.Minute)
			released = append(released, e)
		})
		require.NoError(t, ctx.Err())
		require.Equal(t, []Event{{End: 10}}, released)
		require.Nil(t, remote.stalled.Load())
	})
}
