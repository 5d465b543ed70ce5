package js

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"assay/rewardmodel/feedback"
)

// ErrUncertain reports that what the server replied is not believed: it has one reply for
// what does not exist, what it cannot read, and what is closed at the moment. It is
// Retryable, and wraps feedback.ErrUnavailable, whose code clients know as retryable.
var ErrUncertain = fmt.Errorf("the disk of the NATS server failed, or its streams were closed: %w", feedback.ErrUnavailable)

// Disk is what a process knows of the disk of its embedded server.
type Disk interface {
	// Interruptions counts the times that the streams were closed or opened, and that the
	// server could not read a file.
	Interruptions() uint64
	// Check returns why the streams are closed, or cannot be written, or nil.
	Check() error
}

// Guard returns jet with replies that are believed only if the disk had no error during the
// whole request: that there is no such message, stream or consumer, and what the state of a
// stream is, which lists its subjects and its last sequence. Otherwise the error wraps
// ErrUncertain. It covers what this package and its callers ask for to find out what exists:
// Stream and Consumer, and Info, GetMsg and GetLastMsgForSubject of streams.
func Guard(jet jetstream.JetStream, disk Disk) jetstream.JetStream {
	return guarded{jet, disk}
}

type guarded struct {
	jetstream.JetStream
	disk Disk
}

func (g guarded) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	stream, err := ask(g.disk, always, func() (jetstream.Stream, error) { return g.JetStream.Stream(ctx, name) })
	return g.stream(stream), err
}

func (g guarded) CreateStream(ctx context.Context, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	stream, err := g.JetStream.CreateStream(ctx, cfg)
	return g.stream(stream), err
}

func (g guarded) stream(stream jetstream.Stream) jetstream.Stream {
	if stream == nil {
		return nil
	}
	return guardedStream{stream, g.disk}
}

func (g guarded) Consumer(ctx context.Context, stream, name string) (jetstream.Consumer, error) {
	return ask(g.disk, absent, func() (jetstream.Consumer, error) { return g.JetStream.Consumer(ctx, stream, name) })
}

type guardedStream struct {
	jetstream.Stream
	disk Disk
}

func (s guardedStream) Info(ctx context.Context, opts ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	return ask(s.disk, always, func() (*jetstream.StreamInfo, error) { return s.Stream.Info(ctx, opts...) })
}

func (s guardedStream) GetMsg(ctx context.Context, sequence uint64, opts ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	return ask(s.disk, absent, func() (*jetstream.RawStreamMsg, error) { return s.Stream.GetMsg(ctx, sequence, opts...) })
}

func (s guardedStream) GetLastMsgForSubject(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	return ask(s.disk, absent, func() (*jetstream.RawStreamMsg, error) { return s.Stream.GetLastMsgForSubject(ctx, subject) })
}

// absent reports whether an error says that something does not exist.
func absent(err error) bool {
	return errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound)
}

// always is for replies that say what exists.
func always(err error) bool { return err == nil || absent(err) }

// ask returns the reply to a request. If doubt says so, it is believed only if the disk had
// no error meanwhile.
func ask[T any](disk Disk, doubt func(error) bool, request func() (T, error)) (reply T, err error) {
	before := disk.Interruptions()
	reply, err = request()
	if !doubt(err) {
		return reply, err
	}
	failed := disk.Check() // first: what it finds out may be counted
	if failed == nil && disk.Interruptions() == before {
		return reply, err
	}
	var none T
	if failed != nil {
		return none, fmt.Errorf("%w: %w", ErrUncertain, failed)
	}
	return none, ErrUncertain
}
