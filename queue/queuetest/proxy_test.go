package queuetest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/queue/queuetest"
)

// A slow network delays each direction, loses nothing, and keeps connections when it changes.
func TestSlowNetwork(t *testing.T) {
	q := queuetest.Open(t, queue.Config{})
	p := queuetest.StartProxy(t, strings.TrimPrefix(q.URL(), "nats://"))
	nc, err := nats.Connect("nats://"+p.Addr(), nats.NoReconnect())
	require.NoError(t, err)
	defer nc.Close()
	p.Set(queuetest.Slow)
	rtt, err := nc.RTT()
	require.NoError(t, err)
	require.GreaterOrEqual(t, rtt, 400*time.Millisecond, "200 ms in each direction")
	other, err := nats.Connect("nats://"+p.Addr(), nats.NoReconnect(), nats.Timeout(time.Minute))
	require.NoError(t, err)
	other.Close()
	p.Set(queuetest.Passing)
	require.NoError(t, nc.Flush())
	require.True(t, nc.IsConnected())
}
