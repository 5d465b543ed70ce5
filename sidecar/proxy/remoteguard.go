package proxy

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"time"

	client "assay/clients/go"
	"assay/rewardmodel"
)

// Remote scores with a running service, over POST /v1/live.
type Remote struct {
	client  *client.Client
	options client.Options
	timeout time.Duration
	// reports is set once the service has reported progress: one that never does is older
	// than that, and its silence says nothing.
	reports atomic.Bool
	stalled atomic.Pointer[stall] // nil: the last session that had to make progress did
}

// stall is why a session without progress has failed.
type stall struct{ limit time.Duration }

func (s *stall) Error() string {
	return fmt.Sprintf("the service of --url accepts text but has scored none of it for --verdict-timeout, %v", s.limit)
}

// NewRemote returns a guard over the service of a client, which the caller closes; see
// [Config.Reasoning]. A session fails while text that it sent is not scored within the
// timeout; 0: never. It does not connect.
func NewRemote(service *client.Client, reasoning rewardmodel.Reasoning, timeout time.Duration) *Remote {
	return &Remote{client: service, options: client.Options{OffsetUnit: string(rewardmodel.OffsetUTF8), Reasoning: string(reasoning)}, timeout: timeout}
}

// Ready implements [Guard]: it asks the service. After a session without progress, it
// also has the service score a sentence.
func (r *Remote) Ready(ctx context.Context) error {
	if err := r.client.Ready(ctx); err != nil {
		return err
	}
	s := r.stalled.Load()
	if s == nil || r.scores(ctx) {
		return nil
	}
	return s
}

// scores reports whether the service scores a sentence that it has not cached before ctx
// ends. Its result is never asked for, so that the service does not count it.
func (r *Remote) scores(ctx context.Context) bool {
	session, err := r.client.Live(ctx, client.LiveOptions{Options: r.options, Progress: true})
	if err != nil {
		return false
	}
	defer session.Stop()
	text := fmt.Sprintf("Is it scored at %v? Yes", time.Now().UnixNano())
	if session.Send(text) != nil {
		return false
	}
	for e, err := range session.Events() {
		if err == nil && e.Progress != nil && e.Progress.Bytes == len(text) {
			r.progressed()
			return true
		}
	}
	return false
}

// progressed notes that the service scores.
func (r *Remote) progressed() {
	r.reports.Store(true)
	r.stalled.Store(nil)
}

// Open implements [Guard].
func (r *Remote) Open(ctx context.Context, prompt string, report func(Event)) (Session, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	session, err := r.client.Live(ctx, client.LiveOptions{Prompt: strings.ToValidUTF8(prompt, "\uFFFD"), Options: r.options, Progress: true})
	if err != nil {
		cancel(nil)
		return nil, err
	}
	s := &remoteSession{session: session, cancel: cancel, reported: make(chan struct{})}
	s.watch.start(r, cancel)
	go s.forward(session.Events(), report)
	return s, nil
}

// remoteSession sends text, and a goroutine reports the events.
type remoteSession struct {
	session  *client.Live
	cancel   context.CancelCauseFunc
	watch    progressWatch
	reported chan struct{} // closed after the last event
}

func (s *remoteSession) forward(events iter.Seq2[client.LiveEvent, error], report func(Event)) {
	defer close(s.reported)
	defer s.watch.stop()
	for e, err := range events {
		switch {
		case err != nil:
			return // Feed or Close returns it
		case e.Progress != nil:
			s.watch.scored(e.Progress.Bytes)
			continue
		}
		void, index := e.Reset != nil, e.Utterance.Index
		if void {
			index = e.Reset.Index
		}
		s.watch.reporting(func() {
			report(Event{
				Reset: void, Index: index, Start: e.Utterance.Start, End: e.Utterance.End,
				Violation: e.Utterance.Violation, Violating: e.Utterance.Violating,
				Text: Verdict{Violation: e.Violation, Reward: e.Reward, Compliant: e.Compliant},
			})
		})
	}
}

// Feed implements [Session]. It does not wait for the scores.
func (s *remoteSession) Feed(ctx context.Context, piece string) error {
	defer context.AfterFunc(ctx, func() { s.cancel(nil) })()
	s.watch.sent(len(piece))
	return s.session.Send(piece)
}

// Close implements [Session].
func (s *remoteSession) Close(ctx context.Context) (Verdict, error) {
	defer context.AfterFunc(ctx, func() { s.cancel(nil) })()
	defer s.End()
	r, err := s.session.Close()
	if err != nil {
		return Verdict{}, err
	}
	<-s.reported
	v := Verdict{Violation: r.Violation, Reward: r.Reward, Compliant: r.Compliant, Empty: r.Empty, Truncated: r.Truncated, Model: r.Model.Version}
	if w := r.Witness; w != nil {
		v.Witness = &Witness{Start: w.Start, End: w.End, Violation: w.Violation}
	}
	return v, nil
}

// Done implements [Session].
func (s *remoteSession) Done() <-chan struct{} { return s.reported }

// End implements [Session].
func (s *remoteSession) End() {
	s.cancel(nil)
	s.session.Stop()
	<-s.reported
}
