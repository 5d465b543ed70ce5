package fleet

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"assay/queue"
	"assay/queue/embedded"
	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/retrain"
	"assay/sidecar/processtest"
)

// A name that no version can have is an unknown version: a client that pins it gets that error, and no Retry-After.
func TestInvalidVersionNames(t *testing.T) {
	f := NewCheckpointDirs("v1", "given", t.TempDir())
	dir, err := f.Directory(t.Context(), "v1")
	require.NoError(t, err)
	require.Equal(t, "given", dir)
	for _, version := range []string{"", "org/name", "..", ".hidden", `a\b`, "a\x00", "nobody"} {
		_, err := f.Directory(t.Context(), version)
		require.ErrorIs(t, err, retrain.ErrNoModel, version)
	}
}

// Requests that pin versions can start only a limited number of downloads; cached versions that are not needed are
// removed first. The version that the fleet serves does not count.
func TestPinnedDownloadsAreRateLimited(t *testing.T) {
	q, err := queue.Open(t.Context(), queue.Config{Server: embedded.Config{Listen: "127.0.0.1:0", DataDir: t.TempDir()}}, zerolog.Nop(), prometheus.NewRegistry())
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close(context.Background())) }()
	registry, err := q.OpenRegistry(t.Context())
	require.NoError(t, err)
	for i := range 5 {
		version := fmt.Sprint("kept-", i)
		dir := processtest.TinyModel(t, func(_ *checkpoint.Config, m *checkpoint.Manifest) { m.Version = version })
		files, err := registry.Upload(t.Context(), version, dir)
		require.NoError(t, err)
		require.NoError(t, registry.Register(t.Context(), retrain.Model{Version: version, Files: files, State: retrain.StatePromoted}))
	}
	f := NewCheckpointDirs("v1", "given", t.TempDir())
	f.registry = registry
	f.fetches = rate.NewLimiter(rate.Every(time.Hour), 3)
	f.needed = func(context.Context) func(string) bool { return func(v string) bool { return v == "kept-1" } }

	for _, unknown := range []string{"nobody", "x", "nobody"} { // costs nothing
		_, err := f.Pinned(t.Context(), unknown)
		require.ErrorIs(t, err, retrain.ErrNoModel)
	}
	lost := retrain.Model{Version: "lost", State: retrain.StatePromoted, Files: map[string]retrain.File{"model.safetensors": {Size: 1}}}
	require.NoError(t, registry.Register(t.Context(), lost))
	for range 5 {
		_, err := f.Pinned(t.Context(), "lost")
		require.ErrorContains(t, err, "fetching model lost")
		require.NotErrorIs(t, err, rewardmodel.ErrOverloaded, "a failed download does not count")
	}
	dirs := map[string]string{}
	for _, version := range []string{"kept-0", "kept-1", "kept-0", "kept-1", "v1"} {
		dirs[version], err = f.Pinned(t.Context(), version)
		require.NoError(t, err, version)
	}
	long := time.Now().Add(-2 * minCacheAge)
	for _, version := range []string{"kept-0", "kept-1"} {
		require.NoError(t, os.Chtimes(dirs[version], long, long))
	}
	_, err = f.Pinned(t.Context(), "kept-2")
	require.NoError(t, err)
	require.NoDirExists(t, dirs["kept-0"], "nobody needs it")
	require.DirExists(t, dirs["kept-1"])

	var full *rewardmodel.OverloadedError
	for range 3 {
		_, err = f.Pinned(t.Context(), "kept-3")
		require.ErrorAs(t, err, &full)
		require.InDelta(t, time.Hour, full.RetryAfter, float64(time.Minute), "a refusal does not put off the next fetch")
	}
	_, err = f.Pinned(t.Context(), "kept-2")
	require.NoError(t, err, "it is there")
	_, err = f.Directory(t.Context(), "kept-3")
	require.NoError(t, err, "the fleet serves it")
	_, err = f.Pinned(t.Context(), "kept-3")
	require.NoError(t, err)
}
