package registry_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/queue/internal/jstest"
	"assay/queue/queuetest"
	"assay/queue/registry"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/retrain"
)

// A version whose record the server cannot read at the moment is not unknown. The disk error
// is a directory in the place of the file, which root cannot read either.
func TestUnreadableIsNotUnknown(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until the server reads the file again")
	}
	t.Parallel()
	cfg := queuetest.Config(t)
	q := queuetest.Open(t, cfg)
	r, err := q.OpenRegistry(jstest.Context(t))
	require.NoError(t, err)
	require.NoError(t, r.Register(jstest.Context(t), retrain.Model{Version: "v1"}))
	queuetest.Close(t, q)

	q = queuetest.Open(t, cfg)
	r, err = q.OpenRegistry(jstest.Context(t))
	require.NoError(t, err)
	path := filepath.Join(cfg.Server.DataDir, "nats/jetstream/$G/streams", registry.StreamState, "msgs/1.blk")
	require.NoError(t, os.Rename(path, path+".moved"))
	require.NoError(t, os.Mkdir(path, 0o700))
	require.Eventually(t, func() bool { // when the server has dropped it from its memory
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := r.Model(ctx, "v1")
		require.NotErrorIs(t, err, retrain.ErrNoModel)
		require.NotErrorIs(t, err, retrain.ErrDamaged)
		return errors.Is(err, feedback.ErrUnavailable)
	}, 2*jstest.Timeout, 100*time.Millisecond)
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Rename(path+".moved", path))
	_, err = r.Model(jstest.Context(t), "v1")
	require.NoError(t, err)
}
