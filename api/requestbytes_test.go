package api_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
)

// A request in flight that is small is charged what it takes: its connection, its
// goroutines and its buffers.
func TestRequestBytes(t *testing.T) {
	const n = 400
	entered, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	m := memory(t, 1<<30)
	s := start(t, scorerFunc(func(ctx context.Context, r rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
		entered <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return rewardmodel.ScoreResponse{}, rewardmodel.ErrClosed
	}), within(m))
	send := func(count int) {
		body := `{"responses":[{"response":"` + strings.Repeat("A short answer. ", 20) + `"}]}`
		for range count {
			conn, err := net.Dial("tcp", s.addr)
			require.NoError(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			_, err = fmt.Fprintf(conn, "POST /v1/score HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			require.NoError(t, err)
			<-entered
		}
	}
	send(20) // what the first requests allocate once
	before := inUse()
	send(n)
	each := (inUse() - before) / n
	t.Logf("%d bytes in use for each request", each)
	// The client's end of the connection and the race detector are included: 38 to 41 KB.
	require.Less(t, each, uint64(rewardmodel.RequestBytes*5/4), "the charge is too low")
	require.Greater(t, each, uint64(rewardmodel.RequestBytes/2), "the charge is too high")
}

// inUse is the memory in use after a collection, stacks included.
func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// Requests beyond the memory are refused before anything of them is read, except those
// of operators.
func TestRequestsAreCharged(t *testing.T) {
	const limit = 8 * rewardmodel.RequestBytes
	m := memory(t, limit)
	s := start(t, scorerOf(t, &model{}, 0), within(m))
	score := func() answer { return s.score(t, `{"responses":[{"response":"a"}]}`) }
	most, rest := m.Open(), m.Open()
	require.NoError(t, most.Grow(limit/2))
	require.NoError(t, rest.Grow(limit/4))
	require.Equal(t, 200, score().StatusCode, "there is room for two")
	require.NoError(t, rest.Grow(limit/4-rewardmodel.RequestBytes+1))
	for _, path := range []string{"/v1/score", "/v1/moderations", "/v2/models/default/infer"} {
		a := s.do(t, "POST", path, strings.NewReader(`{}`))
		require.Equal(t, 503, a.StatusCode, "%s: %s", path, a.body)
		require.Equal(t, "1", a.Header.Get("Retry-After"))
	}
	for _, path := range []string{"/livez", "/metrics"} {
		require.Equal(t, 200, s.do(t, "GET", path, nil).StatusCode, path)
	}
	require.NotContains(t, string(s.do(t, "POST", "/v1/models/rollback", nil).body), "memory", "an operator is not admitted")
	most.Close()
	require.Equal(t, 200, score().StatusCode, "the memory is free again")
}
