package js_test

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/js"
	"assay/queue/internal/jstest"
)

// A message that a read has missed is an error, unless it was deleted.
func TestUndeliveredMessages(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	_, jet := jstest.Connect(t, &server.Options{})
	_, stream := openValues(t, jet)
	for range 3 {
		putValue(t, jet, "values.a", "value")
	}
	damaged, err := js.Unreadable(ctx, stream, nil)
	require.NoError(t, err)
	require.Empty(t, damaged)
	_, err = js.Unreadable(ctx, stream, []js.Gap{{First: 2, Last: 2}})
	require.ErrorIs(t, err, nats.ErrTimeout)
	require.ErrorIs(t, err, js.ErrUndelivered)
	require.ErrorContains(t, err, "sequence 2")
	require.NoError(t, stream.DeleteMsg(ctx, 2))
	damaged, err = js.Unreadable(ctx, stream, []js.Gap{{First: 2, Last: 2}})
	require.NoError(t, err)
	require.Empty(t, damaged)
}
