package rewardmodel

import (
	"context"
	"strings"

	"github.com/rs/xid"
)

// LiveRequest opens the live scoring of one response that is still being written.
type LiveRequest struct {
	ID      string // the client's; generated when empty
	Prompt  string // as in Item
	Model   string // as in Request
	Options Options
	// Provisional scores the open utterance whenever it has grown by so many tokens, at
	// least MinProvisional; 0: only settled utterances are scored.
	Provisional int
	Memory      *Reservation // as in Request
	Source      string       // as in Request
}

// MinProvisional is the least LiveRequest.Provisional that is not 0. It bounds how often
// the same text is scored.
const MinProvisional = 8

// Validate reports the first thing wrong with r as an *InputError. Its field is one of
// the members of open in package wire.
func (r LiveRequest) Validate() error {
	if err := r.Options.Validate(); err != nil {
		return err
	}
	if r.Provisional != 0 && r.Provisional < MinProvisional {
		return Invalidf("provisional_tokens", "must be 0 (off) or at least %d, got %d", MinProvisional, r.Provisional)
	}
	if r.Options.Dense != "" && r.Options.Tokenizer == "" {
		return Invalidf("options.dense", "needs the tokens of the response; name the tokenizer in options.tokenizer")
	}
	return nil
}

// LiveEvent is what a live session reports: a scored utterance, or Reset.
type LiveEvent struct {
	// Reset reports that all events before are void: a closing tag of reasoning
	// without an opening one showed that the text so far was not the answer. The
	// other fields are zero.
	Reset     bool
	Utterance LiveUtterance
	Violation float64 // of the response so far: the aggregate of its utterances, in [0,1]
	Reward    float64 // of the response so far, on the scale that was asked for
	Compliant bool    // of the response so far
	// Threshold is the decision threshold of the response so far, as in Result: under
	// the aggregate max, an utterance beyond it violates by itself.
	Threshold float64
	// Stop reports that the response can no longer become compliant, whatever
	// follows. Once true it remains true until a Reset.
	Stop bool
}

// LiveUtterance is a scored utterance. Start and End are in Options.OffsetUnit and
// index the response; Bytes is the end as a byte offset of the text that was fed.
type LiveUtterance struct {
	Index       int // in Result.Instances
	Start, End  int
	Bytes       int
	Text        string
	Violation   float64 // of the aspect that decides, in [0,1]
	Provisional bool    // the utterance is still open: a later event replaces this one
}

// Live scores a response while it is being written. It is not safe for concurrent
// use.
type Live struct {
	scorer  *Scorer
	request LiveRequest
	text    strings.Builder
}

// Live opens a live session. Its errors are those of Score that concern the request.
func (s *Scorer) Live(_ context.Context, request LiveRequest) (*Live, error) {
	if err := request.Validate(); err != nil {
		return nil, err
	}
	if err := s.accepts(request.Model); err != nil {
		return nil, err
	}
	if request.ID == "" {
		request.ID = xid.New().String()
	}
	return &Live{scorer: s, request: request}, nil
}

// Feed appends text to the response, scores the utterances that it settles, and
// returns an event for each. Its errors are those of Score. After an error the
// session has failed.
func (l *Live) Feed(_ context.Context, text string) ([]LiveEvent, error) {
	l.text.WriteString(text)
	return nil, nil
}

// Close ends the response. It returns the events of its last utterances, and the
// result, which equals that of Score for the whole response.
func (l *Live) Close(ctx context.Context) ([]LiveEvent, ScoreResponse, error) {
	response := l.text.String()
	o := l.request.Options
	instances := true
	o.Instances = &instances
	answer, err := l.scorer.Score(ctx, Request{
		Responses: []Item{{ID: l.request.ID, Prompt: l.request.Prompt, Response: &response}},
		Model:     l.request.Model, Options: o, Priority: PriorityInteractive,
		Memory: l.request.Memory, Source: l.request.Source,
	})
	if err != nil {
		return nil, ScoreResponse{}, err
	}
	result := answer.Results[0]
	events := make([]LiveEvent, len(result.Instances))
	for i, in := range result.Instances {
		events[i] = LiveEvent{
			Utterance: LiveUtterance{Index: i, Start: in.Start, End: in.End, Bytes: len(response), Violation: in.Violation},
			Violation: result.Violation, Reward: result.Reward, Compliant: result.Compliant,
			Threshold: result.Threshold, Stop: !result.Compliant,
		}
	}
	return events, answer, nil
}
