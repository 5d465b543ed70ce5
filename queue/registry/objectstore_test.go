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
)

// A file is read completely, whatever a consumer reports as pending.
func TestObjectIsReadToTheEnd(t *testing.T) {
	t.Parallel()
	nc, jet := jstest.Connect(t, &server.Options{})
	_, err := jet.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: BucketModels})
	require.NoError(t, err)
	stream, err := jet.Stream(t.Context(), StreamModels)
	require.NoError(t, err)
	values := js.NewLastValues(jet, stream, func(s string) string { return s }, nil, zerolog.Nop())
	objects := &objectStore{nc, jstest.Undercounting{JetStream: jet, None: true}, stream, values, jet, zerolog.Nop()}
	want := bytes.Repeat([]byte("0123456789abcdef"), 5*chunkBytes/16)
	require.NoError(t, objects.put(t.Context(), "file", bytes.NewReader(want), nil))
	info, _, err := objects.info(t.Context(), "file")
	require.NoError(t, err)
	var got bytes.Buffer
	require.NoError(t, objects.read(t.Context(), info, &got))
	require.Equal(t, len(want), got.Len())
	require.True(t, bytes.Equal(want, got.Bytes()))
}
