package commands_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/sidecar/cli"
)

func TestHealthReportsTheReadinessOfTheService(t *testing.T) {
	ready := false
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/livez", r.URL.Path == "/readyz" && ready:
			_, _ = w.Write([]byte(`{"status":"ready"}`))
		case r.URL.Path == "/readyz":
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"status":"not_ready","error":{"code":"not_ready","message":"the model is being loaded"}}`))
		default:
			http.NotFound(w, r)
		}
	}))
	defer service.Close()
	at, err := url.Parse(service.URL)
	require.NoError(t, err)

	_, logs, code := assay(t, "", "health", "--listen", at.Host)
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, logs, "the model is being loaded")

	out, _, code := assay(t, "", "health", "--live", "--listen", at.Host)
	require.Equal(t, cli.ExitDone, code)
	require.Contains(t, out, "ready")

	ready = true
	_, _, code = assay(t, "", "health", "--listen", "127.0.0.1:1", "--ops-listen", "0.0.0.0:"+at.Port())
	require.Equal(t, cli.ExitDone, code)

	service.Close()
	_, _, code = assay(t, "", "health", "--listen", at.Host)
	require.Equal(t, cli.ExitFailed, code)

	_, logs, code = assay(t, "", "health", "--listen", "8080")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, logs, "HOST:PORT")
}
