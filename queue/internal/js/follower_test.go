package js_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/js"
	"assay/queue/internal/jstest"
)

// behind is a JetStream that describes a stream as it was before its last messages, and cannot
// create a consumer, for a number of times: as a server that is cut off from the others.
type behind struct {
	jetstream.JetStream
	times int
}

func (b *behind) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	stream, err := b.JetStream.Stream(ctx, name)
	if err != nil || b.times == 0 {
		return stream, err
	}
	b.times--
	return streamBehind{stream}, nil
}

type streamBehind struct{ jetstream.Stream }

func (s streamBehind) CachedInfo() *jetstream.StreamInfo {
	info := *s.Stream.CachedInfo()
	info.State.LastSeq = 1
	return &info
}

func (streamBehind) OrderedConsumer(context.Context, jetstream.OrderedConsumerConfig) (jetstream.Consumer, error) {
	return nil, errors.New("no leader")
}

// read reads the next messages of a follower.
func read(t *testing.T, f *js.Follower, n int) (texts []string) {
	t.Helper()
	for msg, err := range f.Messages(jstest.Context(t)) {
		require.NoError(t, err)
		if texts = append(texts, string(msg.Data())); len(texts) == n {
			break
		}
	}
	return texts
}

// A follower reads each message once, also after a server that is behind replied, and all of
// a stream that was created again. It leaves no consumer.
func TestFollowerReadsOnce(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	_, jet := jstest.Connect(t, &server.Options{})
	cfg := jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}
	stream, err := jet.CreateStream(ctx, cfg)
	require.NoError(t, err)
	store := func(prefix string, n int) {
		for i := range n {
			_, err := jet.Publish(ctx, "s.x", fmt.Append(nil, prefix, i))
			require.NoError(t, err)
		}
	}
	store("a", 4)
	stale := &behind{JetStream: jet}
	f := &js.Follower{JetStream: stale, Stream: "S", Filter: "s.>", Prefetch: 8, Log: zerolog.Nop()}
	require.Equal(t, []string{"a0", "a1", "a2"}, read(t, f, 3))
	info, err := stream.Info(ctx)
	require.NoError(t, err)
	require.Zero(t, info.State.Consumers)

	stale.times = 1
	require.Equal(t, []string{"a3"}, read(t, f, 1))

	require.NoError(t, jet.DeleteStream(ctx, "S"))
	_, err = jet.CreateStream(ctx, cfg)
	require.NoError(t, err)
	store("b", 5)
	require.Equal(t, []string{"b0", "b1"}, read(t, f, 2), "although it has more than was read of the first one")
}
