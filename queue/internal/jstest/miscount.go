package jstest

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"
)

// Undercounting is a JetStream whose consumers report too few pending messages, like a
// server that is behind the leader, or while messages are removed.
type Undercounting struct {
	jetstream.JetStream
	None bool // they report that there are none at all
}

func (s Undercounting) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	stream, err := s.JetStream.Stream(ctx, name)
	return underStream{stream, s.None}, err
}

type underStream struct {
	jetstream.Stream
	none bool
}

func (s underStream) OrderedConsumer(ctx context.Context, cfg jetstream.OrderedConsumerConfig) (jetstream.Consumer, error) {
	consumer, err := s.Stream.OrderedConsumer(ctx, cfg)
	return underConsumer{consumer, s.none}, err
}

type underConsumer struct {
	jetstream.Consumer
	none bool
}

func (c underConsumer) Info(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	info, err := c.Consumer.Info(ctx)
	if err == nil && c.none {
		info.NumPending = 0
	}
	return info, err
}

func (c underConsumer) Messages(opts ...jetstream.PullMessagesOpt) (jetstream.MessagesContext, error) {
	messages, err := c.Consumer.Messages(opts...)
	return underMessages{messages}, err
}

type underMessages struct{ jetstream.MessagesContext }

func (m underMessages) Next(opts ...jetstream.NextOpt) (jetstream.Msg, error) {
	msg, err := m.MessagesContext.Next(opts...)
	if err != nil {
		return nil, err
	}
	return underMsg{msg}, nil
}

type underMsg struct{ jetstream.Msg }

func (m underMsg) Metadata() (*jetstream.MsgMetadata, error) {
	meta, err := m.Msg.Metadata()
	if err == nil {
		meta.NumPending = 0
	}
	return meta, err
}

// Overcounting is a JetStream whose consumers announce a message that is erased before it is
// delivered.
type Overcounting struct{ jetstream.JetStream }

func (o Overcounting) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	stream, err := o.JetStream.Stream(ctx, name)
	return overStream{stream}, err
}

type overStream struct{ jetstream.Stream }

func (s overStream) OrderedConsumer(ctx context.Context, cfg jetstream.OrderedConsumerConfig) (jetstream.Consumer, error) {
	consumer, err := s.Stream.OrderedConsumer(ctx, cfg)
	return overConsumer{consumer}, err
}

type overConsumer struct{ jetstream.Consumer }

func (c overConsumer) Messages(opts ...jetstream.PullMessagesOpt) (jetstream.MessagesContext, error) {
	messages, err := c.Consumer.Messages(opts...)
	return overMessages{messages}, err
}

type overMessages struct{ jetstream.MessagesContext }

func (m overMessages) Next(opts ...jetstream.NextOpt) (jetstream.Msg, error) {
	msg, err := m.MessagesContext.Next(opts...)
	if err != nil {
		return nil, err
	}
	return overMsg{msg}, nil
}

type overMsg struct{ jetstream.Msg }

func (m overMsg) Metadata() (*jetstream.MsgMetadata, error) {
	meta, err := m.Msg.Metadata()
	if err == nil {
		meta.NumPending++
	}
	return meta, err
}
