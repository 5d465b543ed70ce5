package embedded

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/jstest"
)

// A server that started while the disk failed again, and lacks a stream, is replaced.
func TestStreamThatIsNotRecovered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServer(t, Config{Listen: "127.0.0.1:0", DataDir: dir})
	nc, err := nats.Connect(s.URL(), nats.MaxReconnects(-1))
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), "s", nil)
	require.NoError(t, err)

	s.stop() // the test does its work
	s.monitor.Wait()
	streams := openStreams(s.running.Load())
	require.True(t, streams["S"])
	path := filepath.Join(dir, "nats/jetstream/$G/streams/S/meta.inf")
	require.NoError(t, os.Rename(path, path+".moved"))
	require.ErrorContains(t, s.reopen(streams), "S")
	require.NoError(t, s.reopen(nil), "it is not one of those that were open")
	require.NoError(t, os.Rename(path+".moved", path))
	require.NoError(t, s.reopen(streams))
	require.Eventually(t, func() bool { return jstest.Count(js, "S") == 1 }, jstest.Timeout, jstest.Timeout/1000)
}
