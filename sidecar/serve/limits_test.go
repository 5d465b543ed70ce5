package serve_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/sidecar/cli"
	"assay/sidecar/processtest"
)

func TestLimitsChangeWhileTheServiceRuns(t *testing.T) {
	m := processtest.MountConfigMap(t, "max-responses: 1\nlog-level: info\n")
	p := processtest.Serve(t, processtest.TinyModel(t, nil), t.TempDir(), "--config", m.Path(), "--log-format", "json")
	nc, _ := p.JetStream(t)
	const two = `{"responses":[{"response":"One."},{"response":"Two."}]}`
	status := func() int {
		resp, err := http.Post(p.Ready.HTTP+"/v1/score", "application/json", strings.NewReader(two))
		require.NoError(t, err)
		defer resp.Body.Close()
		return resp.StatusCode
	}
	overNATS := func() string {
		reply, err := nc.Request(queue.SubjectScore, []byte(two), processtest.Timeout)
		require.NoError(t, err)
		return reply.Header.Get("Nats-Service-Error-Code")
	}
	require.Equal(t, http.StatusRequestEntityTooLarge, status())
	require.Equal(t, "413", overNATS())
	m.Swap("max-responses: 2\nlog-level: debug\nthreads: 5\nmax-in-flight: 9\n")
	require.Eventually(t, func() bool { return status() == http.StatusOK }, processtest.Timeout, 20*time.Millisecond)
	require.Eventually(t, func() bool { return overNATS() == "" }, processtest.Timeout, 20*time.Millisecond)
	p.Signal(t)
	require.Equal(t, cli.ExitDone, p.Wait(t), p.Output())
	require.Contains(t, p.Output(), `"warn","setting":"max-in-flight"`)
	require.Contains(t, p.Output(), `"level":"debug"`)
}
