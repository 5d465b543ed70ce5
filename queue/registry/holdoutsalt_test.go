package registry_test

import (
	"encoding/hex"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/js"
	"assay/queue/internal/jstest"
	"assay/queue/queuetest"
	"assay/queue/registry"
)

// Replicas that request the salt concurrently get the same one, as do later ones.
func TestHoldoutSaltIsOne(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	q := queuetest.Open(t, queuetest.Config(t))
	const replicas = 8
	salts := make([][]byte, replicas)
	var wg sync.WaitGroup
	for i := range salts {
		r := openRegistry(t, q)
		wg.Go(func() {
			salt, err := r.HoldoutSalt(ctx)
			if err != nil {
				t.Error(err)
			}
			salts[i] = salt
		})
	}
	wg.Wait()
	again, err := openRegistry(t, q).HoldoutSalt(ctx)
	require.NoError(t, err)
	require.Len(t, again, registry.SaltSize)
	for _, salt := range salts {
		require.Equal(t, again, salt)
	}
	other, err := openRegistry(t, queuetest.Open(t, queuetest.Config(t))).HoldoutSalt(ctx)
	require.NoError(t, err)
	require.NotEqual(t, again, other, "each installation has its own")
}

func TestHoldoutSaltThatIsDamagedIsNotReplaced(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	r := openRegistry(t, queuetest.Open(t, queuetest.Config(t)))
	_, err := r.State().Put(ctx, registry.KeySalt, []byte("not a salt"), 0)
	require.NoError(t, err)
	_, err = r.HoldoutSalt(ctx)
	require.ErrorContains(t, err, registry.KeySalt)
}

func TestDeletedHoldoutSaltIsNotReplaced(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	q := queuetest.Open(t, queuetest.Config(t))
	want, err := openRegistry(t, q).HoldoutSalt(ctx)
	require.NoError(t, err)
	bucket, err := jstest.JetStream(t, q.Conn()).KeyValue(ctx, registry.BucketState)
	require.NoError(t, err)
	require.NoError(t, bucket.Delete(ctx, registry.KeySalt))
	_, err = openRegistry(t, q).HoldoutSalt(ctx)
	require.ErrorContains(t, err, "restore it")

	// The procedure of docs/feedback.md.
	subject := registry.SubjectState + registry.KeySalt
	_, err = jstest.JetStream(t, q.Conn()).PublishMsg(ctx, &nats.Msg{Subject: subject, Header: nats.Header{js.HeaderRecord: {subject}}, Data: []byte(hex.EncodeToString(want))})
	require.NoError(t, err)
	again, err := openRegistry(t, q).HoldoutSalt(ctx)
	require.NoError(t, err)
	require.Equal(t, want, again)
}
