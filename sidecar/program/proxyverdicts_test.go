package program_test

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/queue/embedded"
	"assay/sidecar/processtest"
)

const proxyUpstreamBody = `{"choices":[{"index":0,"message":{"content":"Have a good trip. And a coat."},"finish_reason":"stop"}]}`

// askProxy posts a request and returns the value of the verdict header.
func askProxy(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(`{"messages":[]}`))
	require.NoError(t, err)
	request.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, proxyUpstreamBody, string(body))
	return response.Header.Get("Assay-Verdict")
}

// The proxy starts and responds while NATS is away, and publishes once it is there.
func TestProxyPublishesVerdicts(t *testing.T) {
	reserved, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it listens immediately
	require.NoError(t, err)
	address := reserved.Addr().String()
	require.NoError(t, reserved.Close())
	url := runProxy(t, proxyUpstreamBody, "--model", processtest.TinyModel(t, nil), "--threads", "1", "--precision", "fp32", "--nats-url", "nats://"+address)
	require.NotEmpty(t, askProxy(t, url))

	server, err := embedded.Start(embedded.Config{Listen: address, DataDir: t.TempDir()}, nil, zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Shutdown()) })
	nc, err := nats.Connect(server.URL())
	require.NoError(t, err)
	defer nc.Close()
	messages := make(chan *nats.Msg, 1000)
	_, err = nc.ChanSubscribe(queue.SubjectVerdicts+".*", messages)
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	var message *nats.Msg
	require.Eventually(t, func() bool {
		header := askProxy(t, url)
		select {
		case message = <-messages:
		case <-time.After(100 * time.Millisecond):
			return false
		}
		var published, sent map[string]any
		require.NoError(t, json.Unmarshal(message.Data, &published))
		require.NoError(t, json.Unmarshal([]byte(header), &sent))
		require.Equal(t, "chat", published["endpoint"])
		for name, value := range sent {
			require.Equal(t, value, published[name], name)
		}
		return true
	}, time.Minute, time.Millisecond)
	require.Equal(t, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", message.Header.Get("traceparent"))
	require.Contains(t, []string{"compliant", "violating"}, strings.TrimPrefix(message.Subject, queue.SubjectVerdicts+"."))
}
