package registry

import (
	"bytes"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/js"
	"assay/queue/internal/jstest"
	"assay/rewardmodel/retrain"
)

// openObjects returns an empty object store that reads over the JetStream that reading returns.
func openObjects(t *testing.T, reading func(jetstream.JetStream) jetstream.JetStream) *objectStore {
	nc, jet := jstest.Connect(t, &server.Options{})
	_, err := jet.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: BucketModels})
	require.NoError(t, err)
	stream, err := jet.Stream(t.Context(), StreamModels)
	require.NoError(t, err)
	values := js.NewLastValues(jet, stream, func(s string) string { return s }, nil, zerolog.Nop())
	return &objectStore{nc, reading(jet), stream, values, jet, zerolog.Nop()}
}

// A file is read completely, whatever a consumer reports as pending.
func TestObjectIsReadToTheEnd(t *testing.T) {
	t.Parallel()
	objects := openObjects(t, func(jet jetstream.JetStream) jetstream.JetStream {
		return jstest.Undercounting{JetStream: jet, None: true}
	})
	want := bytes.Repeat([]byte("0123456789abcdef"), 5*chunkBytes/16)
	require.NoError(t, objects.put(t.Context(), "file", bytes.NewReader(want), nil))
	info, _, err := objects.info(t.Context(), "file")
	require.NoError(t, err)
	var got bytes.Buffer
	require.NoError(t, objects.read(t.Context(), info, &got))
	require.Equal(t, len(want), got.Len())
	require.True(t, bytes.Equal(want, got.Bytes()))
}

// removing calls a function before the second write.
type removing struct {
	bytes.Buffer
	writes int
	remove func()
}

func (w *removing) Write(p []byte) (int, error) {
	if w.writes++; w.writes == 2 {
		w.remove()
	}
	return w.Buffer.Write(p)
}

// A file is read completely while others are removed, and reading one that is removed
// itself ends with an error.
func TestObjectIsReadWhileObjectsAreRemoved(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	objects := openObjects(t, func(jet jetstream.JetStream) jetstream.JetStream { return jet })
	want := bytes.Repeat([]byte("0123456789abcdef"), (2*chunkWindow+5)*chunkBytes/16) // more than is read ahead
	for _, name := range []string{"before", "file", "after"} {
		require.NoError(t, objects.put(ctx, name, bytes.NewReader(want), nil))
	}
	info, _, err := objects.info(ctx, "file")
	require.NoError(t, err)
	remove := func(names ...string) func() {
		return func() {
			for _, name := range names {
				require.NoError(t, objects.remove(ctx, name))
			}
		}
	}
	got := removing{remove: remove("before", "after")}
	require.NoError(t, objects.read(ctx, info, &got))
	require.True(t, bytes.Equal(want, got.Bytes()))
	if testing.Short() {
		t.Skip("the next read waits 10 s for a chunk")
	}
	require.ErrorIs(t, objects.read(ctx, info, &removing{remove: remove("file")}), retrain.ErrDamaged)
}
