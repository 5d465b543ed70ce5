package queue

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// shortsighted is a server whose consumers do not count what they have left to
// deliver: as one does that is behind the leader, or while messages are removed.
type shortsighted struct {
	jetstream.JetStream
	blind bool // they do not even see that there is anything
}

func (s shortsighted) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	stream, err := s.JetStream.Stream(ctx, name)
	return shortStream{stream, s.blind}, err
}

type shortStream struct {
	jetstream.Stream
	blind bool
}

func (s shortStream) OrderedConsumer(ctx context.Context, cfg jetstream.OrderedConsumerConfig) (jetstream.Consumer, error) {
	consumer, err := s.Stream.OrderedConsumer(ctx, cfg)
	return shortConsumer{consumer, s.blind}, err
}

type shortConsumer struct {
	jetstream.Consumer
	blind bool
}

func (c shortConsumer) Info(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	info, err := c.Consumer.Info(ctx)
	if err == nil && c.blind {
		info.NumPending = 0
	}
	return info, err
}

func (c shortConsumer) Messages(opts ...jetstream.PullMessagesOpt) (jetstream.MessagesContext, error) {
	messages, err := c.Consumer.Messages(opts...)
	return shortMessages{messages}, err
}

type shortMessages struct{ jetstream.MessagesContext }

func (m shortMessages) Next(opts ...jetstream.NextOpt) (jetstream.Msg, error) {
	msg, err := m.MessagesContext.Next(opts...)
	if err != nil {
		return nil, err
	}
	return shortMsg{msg}, nil
}

type shortMsg struct{ jetstream.Msg }

func (m shortMsg) Metadata() (*jetstream.MsgMetadata, error) {
	meta, err := m.Msg.Metadata()
	if err == nil {
		meta.NumPending = 0
	}
	return meta, err
}

// The ledger reads to the last reward that the leader has, whatever a consumer
// says about what is left, and from the first that is young enough.
func TestLedgerReadsToTheEnd(t *testing.T) {
	t.Parallel()
	q := openQueue(t, testConfig(t))
	store := func(key string) {
		msg := &nats.Msg{Subject: SubjectRewards + ".x", Data: []byte(`{}`), Header: nats.Header{}}
		msg.Header.Set(jetstream.MsgIDHeader, key)
		_, err := q.js.PublishMsg(t.Context(), msg)
		require.NoError(t, err)
	}
	const older, younger = 13, 20
	for i := range older {
		store(fmt.Sprint("old", i))
	}
	stream, err := q.js.Stream(t.Context(), StreamRewards)
	require.NoError(t, err)
	began := stream.CachedInfo().State.LastTime.Add(time.Nanosecond)
	for i := range younger {
		store(fmt.Sprint("x ", i))
	}
	require.NoError(t, stream.DeleteMsg(t.Context(), older+5))
	for name, js := range map[string]jetstream.JetStream{
		"as it is": q.js, "shortsighted": shortsighted{q.js, false}, "blind": shortsighted{q.js, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(js)
			require.NoError(t, l.rebuild(t.Context(), began))
			require.Len(t, l.settled, younger-1, "none of the old ones")
			l.forget()
			for i := range younger {
				settled, err := l.seen(t.Context(), fmt.Sprint("x ", i), began, i == 7 || i == 12)
				require.NoError(t, err)
				require.Equal(t, i >= 7 && i != 4, settled, i)
			}
			// One that waits for longer is asked about after one that does not.
			settled, err := l.seen(t.Context(), "old0", began.Add(-time.Hour), true)
			require.NoError(t, err)
			require.True(t, settled)
			require.Len(t, l.settled, older+younger-1)
		})
	}
}

// optimistic is a server whose consumers announce a message that is erased before it is delivered.
type optimistic struct{ jetstream.JetStream }

func (o optimistic) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	stream, err := o.JetStream.Stream(ctx, name)
	return optimisticStream{stream}, err
}

type optimisticStream struct{ jetstream.Stream }

func (s optimisticStream) OrderedConsumer(ctx context.Context, cfg jetstream.OrderedConsumerConfig) (jetstream.Consumer, error) {
	consumer, err := s.Stream.OrderedConsumer(ctx, cfg)
	return optimisticConsumer{consumer}, err
}

type optimisticConsumer struct{ jetstream.Consumer }

func (c optimisticConsumer) Messages(opts ...jetstream.PullMessagesOpt) (jetstream.MessagesContext, error) {
	messages, err := c.Consumer.Messages(opts...)
	return optimisticMessages{messages}, err
}

type optimisticMessages struct{ jetstream.MessagesContext }

func (m optimisticMessages) Next(opts ...jetstream.NextOpt) (jetstream.Msg, error) {
	msg, err := m.MessagesContext.Next(opts...)
	if err != nil {
		return nil, err
	}
	return optimisticMsg{msg}, nil
}

type optimisticMsg struct{ jetstream.Msg }

func (m optimisticMsg) Metadata() (*jetstream.MsgMetadata, error) {
	meta, err := m.Msg.Metadata()
	if err == nil {
		meta.NumPending++
	}
	return meta, err
}

// The ledger does not wait for rewards that are erased while it reads.
func TestLedgerReadsWhileTheLastAreErased(t *testing.T) {
	t.Parallel()
	q := openQueue(t, testConfig(t))
	const rewards = 5
	for i := range rewards {
		msg := &nats.Msg{Subject: SubjectRewards + ".x", Data: []byte(`{}`), Header: nats.Header{}}
		msg.Header.Set(jetstream.MsgIDHeader, fmt.Sprint("x ", i))
		_, err := q.js.PublishMsg(t.Context(), msg)
		require.NoError(t, err)
	}
	stream, err := q.js.Stream(t.Context(), StreamRewards)
	require.NoError(t, err)
	require.NoError(t, stream.DeleteMsg(t.Context(), rewards))
	l := newLedger(optimistic{q.js})
	require.NoError(t, l.rebuild(t.Context(), time.Time{}))
	require.Len(t, l.settled, rewards-1)
}

// A file is read whole, whatever a consumer says about what is left of it.
func TestObjectIsReadToTheEnd(t *testing.T) {
	t.Parallel()
	q := openQueue(t, testConfig(t))
	stream, err := q.js.Stream(t.Context(), streamModels)
	require.NoError(t, err)
	values := newLastValues(q.js, stream, func(s string) string { return s }, zerolog.Nop())
	objects := &objects{q.nc, shortsighted{q.js, true}, stream, values, q.js, zerolog.Nop()}
	want := bytes.Repeat([]byte("0123456789abcdef"), 5*chunkBytes/16)
	require.NoError(t, objects.put(t.Context(), "file", bytes.NewReader(want), nil))
	info, _, err := objects.info(t.Context(), "file")
	require.NoError(t, err)
	var got bytes.Buffer
	require.NoError(t, objects.read(t.Context(), info, &got))
	require.Equal(t, len(want), got.Len())
	require.True(t, bytes.Equal(want, got.Bytes()))
}
