package registry

import (
	"bytes"
	"context"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
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

// naming is a JetStream in which storing a name has another result than it reports.
type naming struct {
	jetstream.JetStream
	stores bool
	fails  func() error
}

func (n naming) PublishMsg(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if n.stores {
		if ack, err := n.JetStream.PublishMsg(context.WithoutCancel(ctx), msg, opts...); err != nil {
			return ack, err
		}
	}
	return nil, n.fails()
}

// A write that is canceled while its name is on the way leaves the whole object if the server
// stores the name. If the server rejects the name, no chunks are left.
func TestObjectWhoseNameIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(jstest.Context(t))
	n := naming{stores: true, fails: func() error { cancel(); return context.Canceled }}
	objects := openObjects(t, func(jet jetstream.JetStream) jetstream.JetStream {
		n.JetStream = jet
		return n
	})
	want := bytes.Repeat([]byte("0123456789abcdef"), 3*chunkBytes/16)
	require.ErrorIs(t, objects.put(ctx, "canceled", bytes.NewReader(want), nil), context.Canceled)
	var got bytes.Buffer
	info, _, err := objects.info(jstest.Context(t), "canceled")
	require.NoError(t, err)
	require.NotNil(t, info)
	require.NoError(t, objects.read(jstest.Context(t), info, &got))
	require.True(t, bytes.Equal(want, got.Bytes()))

	full := &jetstream.APIError{Code: 503, ErrorCode: 10047, Description: "insufficient storage resources available"}
	objects.js = naming{JetStream: n.JetStream, fails: func() error { return full }}
	require.ErrorIs(t, objects.put(jstest.Context(t), "rejected", bytes.NewReader(want), nil), full)
	counts, err := js.SubjectCounts(jstest.Context(t), objects.stream, SubjectChunks+">")
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{SubjectChunks + info.NUID: uint64(info.Chunks)}, counts)
}
