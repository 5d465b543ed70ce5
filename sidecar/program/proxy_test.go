package program_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/sidecar/cli"
	"assay/sidecar/processtest"
	"assay/sidecar/program"
)

// runProxy runs assay proxy in front of an upstream that answers with body, and returns
// its URL.
func runProxy(t *testing.T, body string, args ...string) string {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(upstream.Close)
	log, stderr := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		command := append([]string{"assay", "proxy", "--log-format", "json", "--listen", "127.0.0.1:0", "--upstream", upstream.URL}, args...)
		ended <- program.Assay().Run(ctx, command, strings.NewReader(""), io.Discard, stderr)
		stderr.Close()
	}()
	t.Cleanup(func() {
		stop()
		require.Equal(t, cli.ExitDone, <-ended)
	})
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		var line struct{ Message, HTTP string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "ready" {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return line.HTTP
		}
	}
	t.Fatal("the proxy ended before it was ready")
	return ""
}

func TestProxy(t *testing.T) {
	model := processtest.TinyModel(t, nil)
	service := processtest.Serve(t, model, t.TempDir(), "--nats", "off")
	for name, args := range map[string][]string{
		"model":   {"--model", model, "--threads", "1", "--precision", "fp32"},
		"service": {"--url", service.Ready.HTTP},
	} {
		t.Run(name, func(t *testing.T) {
			url := runProxy(t, `{"choices":[{"index":0,"message":{"content":"Have a good trip. And a coat."},"finish_reason":"stop"}]}`,
				append(args, "--mode", "redact")...)
			response, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(`{"messages":[]}`)) //nolint:noctx // the upstream responds immediately
			require.NoError(t, err)
			defer response.Body.Close()
			var got struct {
				Assay struct {
					Compliant *bool
					Model     string
					Texts     []struct{ Complete bool }
				}
			}
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(body, &got), string(body))
			require.NotNil(t, got.Assay.Compliant, string(body))
			require.NotEmpty(t, got.Assay.Model)
			require.Len(t, got.Assay.Texts, 1)
			require.True(t, got.Assay.Texts[0].Complete)
		})
	}
}

func TestProxyRefusesSettings(t *testing.T) {
	const upstream = "http://127.0.0.1:8000"
	for _, args := range [][]string{
		{}, {"--upstream", "127.0.0.1:8000"}, {"--upstream", upstream + "?x=1"}, {"--upstream", upstream, "--mode", "delete"},
		{"--upstream", upstream, "--listen", ":8090"}, {"--upstream", upstream, "--max-requests", "0"},
		{"--upstream", upstream, "--mode", "hold", "--verdict-timeout", "0s"}, {"--upstream", upstream, "--url", "host"},
	} {
		t.Run(fmt.Sprint(args), func(t *testing.T) {
			_, stderr, code := assay(t, "", append([]string{"proxy"}, args...)...)
			require.Equal(t, cli.ExitUsage, code, stderr)
		})
	}
}
