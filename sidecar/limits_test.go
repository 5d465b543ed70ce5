package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/sidecar/cli"
)

func TestLimitsChangeUnderARunningService(t *testing.T) {
	m := mountConfigMap(t, "max-responses: 1\nlog-level: info\n")
	p := serve(t, tinyModel(t, nil), t.TempDir(), "--config", m.path(), "--log-format", "json")
	nc, _ := p.jetStream(t)
	const two = `{"responses":[{"response":"One."},{"response":"Two."}]}`
	status := func() int {
		resp, err := http.Post(p.ready.HTTP+"/v1/score", "application/json", strings.NewReader(two))
		require.NoError(t, err)
		defer resp.Body.Close()
		return resp.StatusCode
	}
	overNATS := func() string {
		reply, err := nc.Request(queue.SubjectScore, []byte(two), patience)
		require.NoError(t, err)
		return reply.Header.Get("Nats-Service-Error-Code")
	}
	require.Equal(t, http.StatusRequestEntityTooLarge, status())
	require.Equal(t, "413", overNATS())
	m.swap("max-responses: 2\nlog-level: debug\nthreads: 5\nmax-in-flight: 9\n")
	require.Eventually(t, func() bool { return status() == http.StatusOK }, patience, 20*time.Millisecond)
	require.Eventually(t, func() bool { return overNATS() == "" }, patience, 20*time.Millisecond)
	p.signal(t)
	require.Equal(t, cli.ExitDone, p.wait(t), p.output())
	require.Contains(t, p.output(), `"warn","setting":"max-in-flight"`)
	require.Contains(t, p.output(), `"level":"debug"`)
}
