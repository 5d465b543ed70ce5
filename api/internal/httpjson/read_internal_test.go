package httpjson

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"assay/api/internal/exchange"
)

// slowConnection delivers a byte of a body after each delay, until its read deadline.
type slowConnection struct {
	http.ResponseWriter
	delay    time.Duration
	deadline time.Time
}

func (c *slowConnection) SetReadDeadline(at time.Time) error {
	c.deadline = at
	return nil
}

func (c *slowConnection) Read(p []byte) (int, error) {
	select {
	case <-time.After(c.delay):
	case <-time.After(time.Until(c.deadline)):
	}
	if !time.Now().Before(c.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	return 1, nil
}

// A client is too slow by the time in which the service waits for it, and not by the time in which the service
// decompresses what arrived.
func TestDecodingTime(t *testing.T) {
	const grace, request = 10 * time.Second, 5 * time.Minute
	for name, c := range map[string]struct {
		waits, decodes, fails time.Duration
	}{
		"slow client":                {waits: 3 * time.Second, fails: grace},
		"slow service":               {decodes: 3 * time.Second, fails: request},
		"both":                       {waits: time.Second, decodes: 3 * time.Second, fails: 4 * grace},
		"slow in many small periods": {waits: time.Second, decodes: 5 * time.Millisecond, fails: grace + 40*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/score", nil)
				connection := &slowConnection{ResponseWriter: httptest.NewRecorder(), delay: c.waits}
				settings := &exchange.Settings{HeaderTimeout: grace, MinRate: 1 << 20}
				wire := newWireReader(r, io.Reader(connection), http.NewResponseController(connection), settings)
				began := time.Now()
				var err error
				for err == nil && time.Since(began) < request {
					_, err = wire.Read(make([]byte, 1))
					if err == nil {
						<-time.After(c.decodes)
					}
				}
				require.InDelta(t, c.fails.Seconds(), time.Since(began).Seconds(), 0.1)
				if c.fails < request {
					require.ErrorIs(t, err, os.ErrDeadlineExceeded)
				}
			})
		})
	}
}
