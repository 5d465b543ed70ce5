package queuetest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/queue/queuetest"
	"assay/queue/registry"
	"assay/rewardmodel/retrain"
)

// electionTimeout allows for elections on a busy machine.
const electionTimeout = 2 * time.Minute

const (
	stateStream  = "KV_" + registry.BucketState
	modelsStream = "OBJ_" + registry.BucketModels
)

// replica opens the queue of one replica on a cluster.
func replica(t *testing.T, c *queuetest.Cluster) *registry.Registry {
	t.Helper()
	q := queuetest.Open(t, queue.Config{Conn: queue.ConnConfig{URL: c.URL()}, Streams: queue.StreamsConfig{Replicas: 3}})
	r, err := q.OpenRegistry(t.Context())
	require.NoError(t, err)
	return r
}

// count increments the number of attempts in the status until stop is closed, and
// returns the number of increments.
func count(ctx context.Context, r *registry.Registry, stop <-chan struct{}) (n int, err error) {
	for {
		select {
		case <-stop:
			return n, nil
		default:
		}
		status, err := r.Status(ctx)
		if err != nil {
			return n, err
		}
		status.Attempt++
		switch _, err = r.SetStatus(ctx, status); {
		case err == nil:
			n++
		case !errors.Is(err, retrain.ErrChanged):
			return n, err
		}
	}
}

// publish publishes numbered events until stop is closed, and returns how many.
func publish(ctx context.Context, r *registry.Registry, stop <-chan struct{}) (n int, err error) {
	for ; ; n++ {
		if err := r.Publish(ctx, retrain.Event{Kind: retrain.EventTrained, Reason: fmt.Sprint(n)}); err != nil {
			return n, err
		}
		select {
		case <-stop:
			return n + 1, r.Publish(ctx, retrain.Event{Kind: retrain.EventPromoted, Reason: "the last"})
		default:
		}
	}
}

// tail reads what publish publishes.
func tail(ctx context.Context, r *registry.Registry) (n int, err error) {
	for e, err := range r.Events(ctx, 0) {
		switch {
		case err != nil:
			return n, err
		case e.Kind == retrain.EventPromoted:
			return n, nil
		case e.Reason != fmt.Sprint(n):
			return n, fmt.Errorf("event %q in place of %d", e.Reason, n)
		}
		n++
	}
	return n, ctx.Err()
}

// The registry works while nodes die, loses no change and applies none twice.
func TestRegistryOfAClusterSurvivesItsLeaders(t *testing.T) {
	if testing.Short() {
		t.Skip("kills nodes of a cluster, which takes half a minute")
	}
	c := queuetest.StartCluster(t, 3)
	one, two := replica(t, c), replica(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), electionTimeout)
	defer cancel()

	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "model.safetensors"), make([]byte, 3<<20), 0o600))
	files, err := one.Upload(ctx, "v0", dir)
	require.NoError(t, err)
	m := retrain.Model{Version: "v0", Files: files}
	require.NoError(t, one.Register(ctx, m))
	current, err := one.SetCurrent(ctx, retrain.Current{Version: "v0"})
	require.NoError(t, err)
	watched := two.WatchCurrent(ctx)
	require.Equal(t, current, <-watched)

	stop := make(chan struct{})
	var wg sync.WaitGroup
	work := func(n *int, f func() (int, error)) {
		wg.Go(func() {
			var err error
			if *n, err = f(); err != nil {
				t.Error(err)
			}
		})
	}
	var counted [2]int
	var published, tailed, moved int
	work(&counted[0], func() (int, error) { return count(ctx, one, stop) })
	work(&counted[1], func() (int, error) { return count(ctx, two, stop) })
	work(&published, func() (int, error) { return publish(ctx, one, stop) })
	work(&tailed, func() (int, error) { return tail(ctx, two) })
	killed := c.Leader(stateStream)
	c.Kill(killed)
	current.Version = "v1"
	current, err = one.SetCurrent(ctx, current)
	require.NoError(t, err)
	require.Equal(t, current, <-watched)
	_, err = one.Upload(ctx, "v1", dir)
	require.NoError(t, err)
	to := filepath.Join(t.TempDir(), "v0")
	require.NoError(t, two.Download(ctx, m, to))
	c.Restart(killed)
	for _, stream := range []string{stateStream, modelsStream, registry.StreamEvents} {
		c.Healthy(stream)
	}

	// Another leader, in the middle of an upload.
	killed = c.Leader(modelsStream)
	big := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(big, "model.safetensors"), make([]byte, 32<<20), 0o600))
	work(&moved, func() (int, error) {
		files, err := one.Upload(ctx, "v2", big)
		if err != nil {
			return 0, err
		}
		return len(files), two.Download(ctx, retrain.Model{Version: "v2", Files: files}, filepath.Join(filepath.Dir(to), "v2"))
	})
	c.Kill(killed)
	current.Version = "v2"
	current, err = two.SetCurrent(ctx, current)
	require.NoError(t, err)
	require.Equal(t, current, <-watched)
	close(stop)
	wg.Wait()
	status, err := two.Status(ctx)
	require.NoError(t, err)
	require.Equal(t, counted[0]+counted[1], status.Attempt, "each success is one change")
	require.Equal(t, published, tailed)
	require.Equal(t, 1, moved)
	t.Logf("%v changes of the status, %d events", counted, published)
	models, err := one.Models(ctx)
	require.NoError(t, err)
	require.Len(t, models, 1)
	cancel()
	for range watched {
	}
}
