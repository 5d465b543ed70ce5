package api

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"assay/api/internal/exchange"
	"assay/api/internal/httpjson"
)

// unreadResponse is the response to a client that does not read: writing waits for the
// deadline.
type unreadResponse struct {
	*httptest.ResponseRecorder
	timer *time.Timer
}

func (w unreadResponse) SetWriteDeadline(t time.Time) error {
	if w.timer.Stop(); !t.IsZero() {
		w.timer.Reset(time.Until(t))
	}
	return nil
}

func (w unreadResponse) Write([]byte) (int, error) {
	<-w.timer.C
	return 0, os.ErrDeadlineExceeded
}

// The time to receive an event restarts with each message that the client sends, and
// with the end of its body.
func TestLiveBodyIsSentBeforeItsClientReads(t *testing.T) {
	for _, test := range []struct {
		name    string
		receive int // messages, one every 20 s
		want    time.Duration
	}{
		{"the client is silent", 0, eventSendTimeout},
		{"the body has ended", 4, 60*time.Second + eventSendTimeout},
		{"the session is behind", 3, 40*time.Second + 5*time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := unreadResponse{httptest.NewRecorder(), time.NewTimer(time.Hour)}
				w.timer.Stop()
				settings := &exchange.Settings{RequestTimeout: 5 * time.Minute}
				settings.SetLimits(exchange.Limits{MaxBody: 1 << 20})
				ctx, x := exchange.Begin(t.Context(), exchange.Identity{}, "", nil, settings)
				r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/live", strings.NewReader(strings.Repeat("{\"text\":\"a\"}\n", 3)))
				r.Header.Set("Content-Type", "application/x-ndjson")
				lines, err := httpjson.ReadLines(w, r, httpjson.NDJSON)
				require.NoError(t, err)
				lines.Wait()
				body := &liveBody{w: w, x: x, control: http.NewResponseController(w), lines: lines, allowed: func() error { return nil }}
				sent := make(chan error, 1)
				start := time.Now()
				go func() { sent <- body.Send([]byte("{}")) }()
				synctest.Wait()
				for i := range test.receive {
					if i > 0 {
						<-time.After(20 * time.Second)
					}
					_, err = body.Receive()
				}
				require.ErrorIs(t, <-sent, os.ErrDeadlineExceeded)
				require.Equal(t, test.receive == 4, err != nil, "%v", err)
				require.Equal(t, test.want, time.Since(start))
			})
		})
	}
}
