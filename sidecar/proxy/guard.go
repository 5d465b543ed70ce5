package proxy

import "context"

// Guard scores texts while they are being written. It is safe for concurrent use.
type Guard interface {
	// Open starts to score a text that answers prompt. The session calls report for
	// each event, in order and never concurrently, until Close or End returns.
	Open(ctx context.Context, prompt string, report func(Event)) (Session, error)
	// Ready returns nil, or why Open would fail.
	Ready(ctx context.Context) error
}

// Session scores one text. Its methods must not be called concurrently.
type Session interface {
	// Feed appends a piece, valid UTF-8, to the text. The piece may be empty.
	Feed(ctx context.Context, piece string) error
	// Done is closed when the session has ended, also by itself: then Feed says why.
	Done() <-chan struct{}
	// Close ends the text and returns its verdict once all its events are reported.
	Close(ctx context.Context) (Verdict, error)
	// End ends the session without a verdict, unless it has ended.
	End()
}

// Event is a scored utterance, or Reset.
type Event struct {
	// Reset reports that the utterances from Index on were reasoning: their events are
	// void. A guard of a mode that enforces reports none, since they were released.
	Reset      bool
	Index      int     // of the utterance, or of the first void one
	Start, End int     // of the utterance, in bytes of the text
	Violation  float64 // of the utterance, in [0,1]
	Violating  bool    // the utterance alone makes the text violate
	Text       Verdict // of the text so far
}

// Verdict is the score of a text.
type Verdict struct {
	Violation float64 // in [0,1]
	Reward    float64 // the compliance, in [0,1]
	Compliant bool
	Witness   *Witness // of Close; nil: that of the events
	Empty     bool     // of Close: there was nothing to score; the other fields say nothing
	Truncated bool     // the text has more utterances than are scored
	Model     string   // the version
}
