package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/sidecar/proxy"
)

// A stream that has ended at once writes its trailer only when the reverse proxy no longer reads the names of the trailers:
// after the header.
func TestStreamIsReadAfterTheHeader(t *testing.T) {
	for _, mode := range []proxy.Mode{proxy.Observe, proxy.Hold, proxy.Stop, proxy.Redact} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &headerWatch{ResponseRecorder: httptest.NewRecorder()}
				config := proxy.DefaultConfig()
				config.Mode, config.Transport = mode, emptyStream{&w.read}
				p, err := proxy.New(config, &sentenceGuard{}, zerolog.Nop(), prometheus.NewRegistry())
				require.NoError(t, err)
				defer p.Close()
				p.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader("{}")))
				require.False(t, w.early)
				require.True(t, w.read.Load())
				require.NotEmpty(t, w.Result().Trailer.Get(proxy.VerdictHeader))
			})
		})
	}
}

// headerWatch notes whether the upstream was read before the header was written.
type headerWatch struct {
	*httptest.ResponseRecorder
	read  atomic.Bool
	early bool
}

func (w *headerWatch) WriteHeader(status int) {
	synctest.Wait() // what would read by itself has done so
	w.early = w.early || w.read.Load()
	w.ResponseRecorder.WriteHeader(status)
}

// emptyStream is an upstream that sends no event, and notes that it was read.
type emptyStream struct{ read *atomic.Bool }

func (u emptyStream) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: io.NopCloser(u), Request: r,
	}, r.Body.Close()
}

func (u emptyStream) Read([]byte) (int, error) {
	u.read.Store(true)
	return 0, io.EOF
}
