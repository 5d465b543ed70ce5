package proxy

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// roundTrip is an upstream without a connection.
type roundTrip func(r *http.Request) (*http.Response, error)

func (t roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// unread is a client that reads so much, and then nothing.
type unread struct {
	*httptest.ResponseRecorder
	left     int
	deadline time.Time
	lost     error
}

func (w *unread) SetWriteDeadline(t time.Time) error {
	w.deadline = t
	return nil
}

func (w *unread) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		w.block()
		return 0, w.lost
	}
	return w.ResponseRecorder.Write(p)
}

func (w *unread) FlushError() error { return w.lost }

// block waits for the deadline, after which the connection is lost.
func (w *unread) block() {
	if w.deadline.IsZero() {
		select {} // as long as the connection
	}
	<-time.After(time.Until(w.deadline))
	w.lost = os.ErrDeadlineExceeded
}

// A client that does not read loses its connection, and so its slot; one that reads does
// not, however long the response takes.
func TestUnreadResponseEnds(t *testing.T) {
	for _, mode := range []Mode{Observe, Hold} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				closed := make(chan struct{})
				config := DefaultConfig()
				config.Mode, config.MaxRequests = mode, 1
				config.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
					from, to := io.Pipe()
					go func() {
						for {
							<-time.After(time.Minute)
							if _, err := io.WriteString(to, `data: {"choices":[{"index":0,"delta":{"role":"assistant"}}]}`+"\n\n"); err != nil {
								close(closed)
								return
							}
						}
					}()
					return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: from, Request: r}, nil
				})
				p, err := New(config, nil, zerolog.Nop(), prometheus.NewRegistry())
				require.NoError(t, err)
				defer p.Close()
				begun := time.Now()
				w := &unread{ResponseRecorder: httptest.NewRecorder(), left: 1000}
				p.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader("{}")))
				require.Positive(t, strings.Count(w.Body.String(), "data:"))
				took := time.Since(begun)
				require.Equal(t, sendTimeout, took%time.Minute)
				require.Greater(t, took, 5*time.Minute)
				require.Zero(t, w.deadline, "it is for one write")
				require.True(t, p.slots.TryAcquire(1))
				<-closed
			})
		})
	}
}

// The transport can repeat a request whose connection was closed.
func TestBodyCanBeSentAgain(t *testing.T) {
	const body = `{"messages":[]}`
	config := DefaultConfig()
	sent := 0
	config.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		_, err := io.CopyN(io.Discard, r.Body, 3)
		require.NoError(t, err)
		require.NotNil(t, r.GetBody)
		for range 2 {
			again, err := r.GetBody()
			require.NoError(t, err)
			all, err := io.ReadAll(again)
			require.NoError(t, err)
			require.Equal(t, body, string(all))
			sent++
		}
		return nil, context.Canceled
	})
	p, err := New(config, nil, zerolog.Nop(), prometheus.NewRegistry())
	require.NoError(t, err)
	defer p.Close()
	p.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(body)))
	require.Equal(t, 2, sent)
}
