// Package livestream runs the live session of one client, whatever carries its
// messages: HTTP, a WebSocket or gRPC.
//
// Three goroutines serve a session, so that neither side waits for the other: one
// receives messages, one scores, one sends. Between them are an [inbox], which merges
// the text that arrives while the scorer is busy, and an [outbox], which holds what
// the client has not read. Both are bounded and charged to the memory of the request.
package livestream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/rewardmodel"
	"assay/rewardmodel/live"
	"assay/rewardmodel/wire"
)

// Stream carries the messages of one client.
type Stream interface {
	// Receive returns the next message, or io.EOF after the last. An error that wraps
	// context.Canceled reports that the client left, whatever else it wraps: the text is
	// not complete. It waits until Hangup.
	Receive() (wire.LiveMessage, error)
	// Start is called once the session is open, before the first Send.
	Start() error
	// Send sends one JSON object. It fails if the client does not read it in time.
	Send(message []byte) error
	// Hangup ends the stream after the last Send, so that Receive returns. err is why
	// the session failed, nil if it had a result.
	Hangup(err error)
}

// Serve runs the session that the first message of the stream opens. Its error is why
// the session failed; if the session was open, the client has received it.
func Serve(ctx context.Context, sessions *live.Sessions, stream Stream, source string) error {
	x := exchange.From(ctx)
	first, err := stream.Receive()
	switch {
	case errors.Is(err, io.EOF) && !errors.Is(err, context.Canceled):
		return errNotOpened("the stream ends before")
	case err != nil:
		return err
	case first.Open == nil:
		return errNotOpened("the first message is not")
	}
	request := *first.Open
	request.Memory, request.Source = x.Memory, source
	x.Responses = 1
	session, err := sessions.Open(ctx, request)
	if err != nil {
		return err
	}
	defer session.End()
	if err := stream.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &conversation{session: session, stream: stream, x: x, in: newInbox(x.Memory), out: newOutbox(x.Memory), cancel: cancel, reports: first.Progress}
	return c.run(ctx)
}

func errNotOpened(what string) error {
	return failure.Invalid("open", `is missing: %s the message that opens the session; send {"open":{}}`, what)
}

// conversation is an open session and its stream.
type conversation struct {
	session *live.Session
	stream  Stream
	x       *exchange.Exchange
	in      *inbox
	out     *outbox
	cancel  context.CancelCauseFunc
	reports bool // the client wants to know what is scored
	scored  int  // bytes
}

func (c *conversation) run(ctx context.Context) error {
	var receiving, sending sync.WaitGroup
	receiving.Go(c.receive)
	sending.Go(c.send)
	err := guarded(func() error { return c.score(ctx) })
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		err = errors.Join(err, c.report(err))
	}
	c.out.close()
	sending.Wait()
	if err == nil && ctx.Err() != nil { // the client did not read the result
		err = context.Cause(ctx)
	}
	c.in.stop()
	c.stream.Hangup(err)
	receiving.Wait()
	return err
}

// guarded turns a panic into an error, so that the goroutines of the session end
// before that of the request.
func guarded(do func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = failure.Panic(value)
		}
	}()
	return do()
}

// receive reads messages until the stream ends. It ignores those after a close: it
// only waits for the client to leave.
func (c *conversation) receive() {
	closed := false
	for {
		m, err := c.stream.Receive()
		switch {
		case errors.Is(err, context.Canceled): // before io.EOF, which a lost connection may be
			c.in.end(err)
			c.cancel(err)
			return
		case errors.Is(err, io.EOF):
			c.in.end(nil)
			return
		case err == nil && (closed || m.Close):
			closed = true
			c.in.end(nil)
			continue
		case err == nil && m.Open != nil:
			err = failure.Invalid("open", "the session is open; send text, or close it")
		}
		if err == nil {
			err = c.in.put(*m.Text)
		}
		if err != nil {
			if !closed {
				c.in.end(err)
			}
			return
		}
	}
}

// send writes what the outbox holds until it is closed.
func (c *conversation) send() {
	for {
		messages, ok := c.out.take()
		if !ok {
			return
		}
		for _, m := range messages {
			err := c.stream.Send(m)
			c.out.sent(m)
			if err != nil {
				c.out.discard()
				c.cancel(unread(err))
				return
			}
		}
	}
}

// unread returns why a message could not be sent: the client does not read, or left.
func unread(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the client does not read: %w: %w", err, context.DeadlineExceeded)
	}
	return fmt.Errorf("%w: %w", err, context.Canceled)
}

// score feeds the session until it ends, and closes it.
func (c *conversation) score(ctx context.Context) error {
	if err := c.progress(0); err != nil {
		return err
	}
	for {
		text, more, err := c.in.take(ctx, c.session.Done())
		if err != nil {
			return err
		}
		if isClosed(c.session.Done()) {
			return c.ended()
		}
		if !more {
			break
		}
		events, err := c.feed(ctx, text)
		c.in.scored(text)
		if err := errors.Join(c.put(events), err); err != nil {
			return err
		}
		if err := c.progress(len(text)); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.x.RequestTimeout)
	defer cancel()
	events, answer, err := c.session.Close(ctx)
	if err := errors.Join(c.put(events), err); err != nil {
		return err
	}
	return c.append(wire.AppendLiveResult(nil, answer))
}

func (c *conversation) feed(ctx context.Context, text string) ([]rewardmodel.LiveEvent, error) {
	ctx, cancel := context.WithTimeout(ctx, c.x.RequestTimeout)
	defer cancel()
	return c.session.Feed(ctx, text)
}

// ended returns why the session has ended by itself.
func (c *conversation) ended() error { return cmp.Or(c.session.Cause(), live.ErrEnded) }

func (c *conversation) put(events []rewardmodel.LiveEvent) error {
	for _, e := range events {
		if err := c.append(wire.AppendLiveEvent(nil, e)); err != nil {
			return err
		}
	}
	return nil
}

// progress reports that so many more bytes are scored, to a client that wants that.
func (c *conversation) progress(bytes int) error {
	c.scored += bytes
	if !c.reports {
		return nil
	}
	return c.append(wire.AppendLiveProgress(nil, c.scored))
}

func (c *conversation) append(message []byte, err error) error {
	if err != nil {
		return fmt.Errorf("encoding an event: %w", err)
	}
	return c.out.put(message)
}

// report sends the error that ends the session. It is small and is not charged:
// a session without memory must not end silently.
func (c *conversation) report(err error) error {
	f := c.x.Failure(err)
	message, err := wire.AppendLiveError(nil, string(f.Code), f.Message, f.Field)
	if err != nil {
		return err
	}
	c.out.force(message)
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
