package proxy

import (
	"context"

	"assay/rewardmodel"
	"assay/rewardmodel/live"
)

// Local scores with a model in this process.
type Local struct {
	sessions *live.Sessions
	options  rewardmodel.Options
	memory   *rewardmodel.Memory
}

// NewLocal returns a guard over sessions; see [Config.Reasoning]. It charges the texts that
// are being scored to memory; nil: they have no limit together.
func NewLocal(sessions *live.Sessions, reasoning rewardmodel.Reasoning, memory *rewardmodel.Memory) *Local {
	return &Local{sessions, rewardmodel.Options{OffsetUnit: rewardmodel.OffsetUTF8, Reasoning: reasoning}, memory}
}

// Ready returns nil: the model is loaded.
func (l *Local) Ready(context.Context) error { return nil }

// Open implements [Guard].
func (l *Local) Open(ctx context.Context, prompt string, report func(Event)) (Session, error) {
	held := l.memory.Open()
	session, err := l.sessions.Open(ctx, rewardmodel.LiveRequest{Prompt: prompt, Options: l.options, Source: "proxy", Memory: held})
	if err != nil {
		held.Close()
		return nil, err
	}
	return &localSession{session, held, report}, nil
}

type localSession struct {
	session *live.Session
	held    *rewardmodel.Reservation
	report  func(Event)
}

// Feed implements [Session].
func (s *localSession) Feed(ctx context.Context, piece string) error {
	events, err := s.session.Feed(ctx, piece)
	s.forward(events)
	return err
}

// Close implements [Session].
func (s *localSession) Close(ctx context.Context) (Verdict, error) {
	events, answer, err := s.session.Close(ctx)
	s.forward(events)
	if err != nil {
		return Verdict{}, err
	}
	return verdictOf(answer.Results[0], answer.Model), nil
}

// Done implements [Session].
func (s *localSession) Done() <-chan struct{} { return s.session.Done() }

// End implements [Session].
func (s *localSession) End() {
	s.session.End()
	s.held.Close()
}

func (s *localSession) forward(events []rewardmodel.LiveEvent) {
	for _, e := range events {
		s.report(eventOf(e))
	}
}

// eventOf is the event of a session whose offsets are in bytes.
func eventOf(e rewardmodel.LiveEvent) Event {
	return Event{
		Reset: e.Reset, Index: e.Utterance.Index, Start: e.Utterance.Start, End: e.Utterance.End,
		Violation: e.Utterance.Violation, Violating: e.Utterance.Violating,
		Text: Verdict{Violation: e.Violation, Reward: e.Reward, Compliant: e.Compliant},
	}
}

func verdictOf(r rewardmodel.Result, model rewardmodel.ModelInfo) Verdict {
	v := Verdict{Violation: r.Violation, Reward: r.Reward, Compliant: r.Compliant, Empty: r.Empty, Truncated: r.Truncated, Model: model.Version}
	if w := r.Witness; w != nil {
		v.Witness = &Witness{Start: w.Start, End: w.End, Violation: w.Violation}
	}
	return v
}
