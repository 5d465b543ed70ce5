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
	"assay/queue/registry"
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

// openQueue opens a queue on an embedded server for the duration of a test.
func openQueue(t *testing.T) *queue.Queue {
	t.Helper()
	q, err := queue.Open(t.Context(), queue.Config{Server: embedded.Config{Listen: "127.0.0.1:0", DataDir: t.TempDir()}}, zerolog.Nop(), prometheus.NewRegistry())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, q.Close(context.Background())) })
	return q
}

// storeVersion stores a promoted version.
func storeVersion(t *testing.T, registry *registry.Registry, version string) retrain.Model {
	t.Helper()
	dir := processtest.TinyModel(t, func(_ *checkpoint.Config, m *checkpoint.Manifest) { m.Version = version })
	files, err := registry.Upload(t.Context(), version, dir)
	require.NoError(t, err)
	m := retrain.Model{Version: version, Files: files, State: retrain.StatePromoted}
	require.NoError(t, registry.Register(t.Context(), m))
	return m
}

// A trainer, which follows no version, removes what it has downloaded once nothing needs it. Versions before the targets
// of the next two rollbacks are not needed.
func TestTrainerRemovesUnneededVersions(t *testing.T) {
	q := openQueue(t)
	registry, err := q.OpenRegistry(t.Context())
	require.NoError(t, err)
	replica, err := ClaimReplica(t.TempDir())
	require.NoError(t, err)
	defer func() { require.NoError(t, replica.Release()) }()
	f := NewCheckpointDirs("v1", "given", t.TempDir())
	cfg := LearningConfig{Config: DefaultConfig(), Replica: replica, Dirs: f, Trains: true, Log: zerolog.Nop()}
	cfg.Program = "assay" // never started
	_, err = NewLearning(t.Context(), cfg, q, nil)
	require.NoError(t, err)

	names := []string{"before-3", "before-2", "before-1", "current", "anchor", "base", "new", "candidate"}
	models, dirs := map[string]retrain.Model{}, map[string]string{}
	for _, version := range names {
		models[version] = storeVersion(t, registry, version)
	}
	_, err = registry.SetCurrent(t.Context(), retrain.Current{Version: "current", Anchor: "anchor", Previous: names[:3]})
	require.NoError(t, err)
	_, err = registry.SetStatus(t.Context(), retrain.Status{Phase: retrain.PhaseGating, Base: "base"})
	require.NoError(t, err)
	age := func(version string) {
		long := time.Now().Add(-2 * minCacheAge)
		require.NoError(t, os.Chtimes(dirs[version], long, long))
	}
	for _, version := range names[:6] {
		dirs[version], err = f.Directory(t.Context(), version)
		require.NoError(t, err)
	}
	for _, version := range names[:6] {
		age(version)
	}
	dirs["new"], err = f.Directory(t.Context(), "new")
	require.NoError(t, err)
	require.NoDirExists(t, dirs["before-3"])
	for _, version := range names[1:7] {
		require.DirExists(t, dirs[version])
	}
	age("new")
	require.NoError(t, f.Verify(t.Context(), models["candidate"]))
	require.NoDirExists(t, dirs["new"])
	for _, version := range names[1:6] {
		require.DirExists(t, dirs[version])
	}
}

// Requests that pin versions can start only a limited number of downloads; cached versions that are not needed are
// removed first. The version that the fleet serves does not count.
func TestPinnedDownloadsAreRateLimited(t *testing.T) {
	q := openQueue(t)
	registry, err := q.OpenRegistry(t.Context())
	require.NoError(t, err)
	for i := range 5 {
		storeVersion(t, registry, fmt.Sprint("kept-", i))
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
