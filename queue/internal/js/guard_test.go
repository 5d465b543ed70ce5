package js_test

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/js"
	"assay/queue/internal/jstest"
	"assay/rewardmodel/feedback"
)

// disk is a disk whose state changes during requests.
type disk struct {
	interruptions uint64
	failed        error
	during        func(*disk)
	checked       func()
}

func (d *disk) Interruptions() uint64 {
	now := d.interruptions
	if d.during != nil {
		d.during(d)
	}
	return now
}

func (d *disk) Check() error {
	if d.checked != nil {
		d.checked()
	}
	return d.failed
}

// Whatever says that something does not exist is believed only if the disk was well.
func TestGuard(t *testing.T) {
	t.Parallel()
	_, raw := jstest.Connect(t, &server.Options{})
	ctx := jstest.Context(t)
	d := &disk{}
	jet := js.Guard(raw, d)
	stream, err := jet.CreateStream(ctx, jetstream.StreamConfig{Name: "KV_B", Subjects: []string{"$KV.B.>"}, MaxMsgsPerSubject: 1})
	require.NoError(t, err)
	ack, err := jet.Publish(ctx, "$KV.B.stored", []byte("x"))
	require.NoError(t, err)
	reopened, err := jet.Stream(ctx, "KV_B")
	require.NoError(t, err)
	values := js.NewLastValues(jet, stream, func(s string) string { return s }, nil, zerolog.Nop())

	asks := map[string]func(context.Context) error{ // each finds nothing
		"stream":   func(ctx context.Context) error { _, err := jet.Stream(ctx, "NONE"); return err },
		"consumer": func(ctx context.Context) error { _, err := jet.Consumer(ctx, "KV_B", "none"); return err },
		"sequence": func(ctx context.Context) error { _, err := stream.GetMsg(ctx, 99); return err },
		"subject": func(ctx context.Context) error {
			_, err := reopened.GetLastMsgForSubject(ctx, "$KV.B.none")
			return err
		},
		"key":         func(ctx context.Context) error { _, err := values.Read(ctx, "$KV.B.none"); return err },
		"next":        func(ctx context.Context) error { _, err := js.FirstFrom(ctx, stream, "$KV.B.>", 99); return err },
		"last":        func(ctx context.Context) error { _, err := js.LastMessage(ctx, stream, "$KV.B.none"); return err },
		"subjects":    func(ctx context.Context) error { _, err := js.SubjectCounts(ctx, stream, "$KV.B.none"); return err },
		"erased last": func(ctx context.Context) error { return js.EraseLast(ctx, stream, "$KV.B.none") },
		"erased":      func(ctx context.Context) error { return js.Erase(ctx, stream, 99) },
	}
	for name, ask := range asks {
		t.Run(name, func(t *testing.T) {
			*d = disk{}
			require.NotErrorIs(t, ask(ctx), js.ErrUncertain)
			for state, during := range map[string]func(*disk){
				"fails":  func(d *disk) { d.failed = errors.New("no space left") },
				"failed": func(d *disk) { d.interruptions++ },
			} {
				try, cancel := context.WithCancel(ctx)
				*d = disk{during: during, checked: cancel} // or some would retry
				err := ask(try)
				cancel()
				require.ErrorIs(t, err, js.ErrUncertain, state)
				require.ErrorIs(t, err, feedback.ErrUnavailable)
				require.True(t, js.Retryable(err))
				require.False(t, errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound))
			}
		})
	}
	// What was found is believed, and so is what the disk did before.
	*d = disk{failed: errors.New("no space left"), interruptions: 7}
	msg, err := stream.GetMsg(ctx, ack.Sequence)
	require.NoError(t, err)
	require.Equal(t, "x", string(msg.Data))
	*d = disk{interruptions: 7}
	_, err = stream.GetMsg(ctx, 99)
	require.ErrorIs(t, err, jetstream.ErrMsgNotFound)
}
