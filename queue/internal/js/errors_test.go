package js_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/js"
	"assay/queue/internal/jstest"
)

// The server has no codes for the reasons of code 10077: the classification must agree
// with its words.
func TestReasonsOfStoreFailed(t *testing.T) {
	for reason, full := range map[error]bool{
		server.ErrMaxMsgs: true, server.ErrMaxBytes: true, server.ErrMaxMsgsPerSubject: true, server.ErrMsgTooLarge: false, server.ErrStoreClosed: false,
	} {
		err := fmt.Errorf("stream S: %w", &jetstream.APIError{Code: 503, ErrorCode: 10077, Description: reason.Error()})
		require.Equal(t, full, js.Full(err), "%v", reason)
		require.Equal(t, errors.Is(reason, server.ErrMsgTooLarge), js.TooLarge(err), "%v", reason)
	}
}

func TestInsufficientStorage(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	_, jet := jstest.Connect(t, &server.Options{JetStreamMaxStore: 1 << 20})
	_, err := jet.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, MaxBytes: 2 << 20})
	require.True(t, js.InsufficientStorage(err), "%v", err)
	_, err = jet.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s", "s"}})
	require.Error(t, err)
	require.False(t, js.InsufficientStorage(err), "%v", err)
	require.False(t, js.InsufficientStorage(errors.New("insufficient storage")))
}
