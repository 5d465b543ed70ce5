package proxy

import (
	"context"
	"strings"

	client "assay/clients/go"
	"assay/rewardmodel"
)

// Remote scores with a running service, over POST /v1/live.
type Remote struct {
	client  *client.Client
	options client.Options
}

// NewRemote returns a guard over the service of a client, which the caller closes; see
// [Config.Reasoning]. It does not connect.
func NewRemote(service *client.Client, reasoning rewardmodel.Reasoning) *Remote {
	return &Remote{service, client.Options{OffsetUnit: string(rewardmodel.OffsetUTF8), Reasoning: string(reasoning)}}
}

// Ready implements [Guard]: it asks the service.
func (r *Remote) Ready(ctx context.Context) error { return r.client.Ready(ctx) }

// Open implements [Guard].
func (r *Remote) Open(ctx context.Context, prompt string, report func(Event)) (Session, error) {
	ctx, cancel := context.WithCancel(ctx)
	session, err := r.client.Live(ctx, client.LiveOptions{Prompt: strings.ToValidUTF8(prompt, "\uFFFD"), Options: r.options})
	if err != nil {
		cancel()
		return nil, err
	}
	s := &remoteSession{session: session, cancel: cancel, reported: make(chan struct{})}
	go s.forward(report)
	return s, nil
}

// remoteSession sends text, and a goroutine reports the events.
type remoteSession struct {
	session  *client.Live
	cancel   context.CancelFunc
	reported chan struct{} // closed after the last event
}

func (s *remoteSession) forward(report func(Event)) {
	defer close(s.reported)
	for e, err := range s.session.Events() {
		if err != nil {
			return // Feed or Close returns it
		}
		void, index := e.Reset != nil, e.Utterance.Index
		if void {
			index = e.Reset.Index
		}
		report(Event{
			Reset: void, Index: index, Start: e.Utterance.Start, End: e.Utterance.End,
			Violation: e.Utterance.Violation, Violating: e.Utterance.Violating,
			Text: Verdict{Violation: e.Violation, Reward: e.Reward, Compliant: e.Compliant},
		})
	}
}

// Feed implements [Session]. It does not wait for the scores.
func (s *remoteSession) Feed(ctx context.Context, piece string) error {
	defer context.AfterFunc(ctx, s.cancel)()
	return s.session.Send(piece)
}

// Close implements [Session].
func (s *remoteSession) Close(ctx context.Context) (Verdict, error) {
	defer context.AfterFunc(ctx, s.cancel)()
	defer s.End()
	r, err := s.session.Close()
	if err != nil {
		return Verdict{}, err
	}
	<-s.reported
	return Verdict{Violation: r.Violation, Reward: r.Reward, Compliant: r.Compliant, Empty: r.Empty, Truncated: r.Truncated, Model: r.Model.Version}, nil
}

// End implements [Session].
func (s *remoteSession) End() {
	s.cancel()
	s.session.Stop()
	<-s.reported
}
