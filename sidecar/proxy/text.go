package proxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

var (
	errHeld      = errors.New("the text that waits for a verdict is longer than --max-held")
	errBehind    = errors.New("scoring is more than --max-held behind")
	errTruncated = errors.New("the text has more utterances than are scored")
)

// text is one text of a response under guard. A goroutine feeds what add appends to a
// session, so that texts do not wait for each other, and pieces that arrive meanwhile are
// fed together.
type text struct {
	choice int
	field  string // of the message, such as content
	answer *answer
	// emit receives what is released, in order and never concurrently. It is nil in mode
	// observe.
	emit func(string)

	wake    chan struct{} // 1: there is something to feed
	drained chan struct{} // 1: something was fed
	ended   chan struct{} // closed when the goroutine has ended

	// emitting is held while what is released is computed and emitted, so that it leaves
	// in order; lock it before mu.
	emitting sync.Mutex

	mu         sync.Mutex
	queued     bytes.Buffer    // not fed yet
	begun      bool            // something was added
	closing    bool            // no more is added
	held       bytes.Buffer    // fed, and neither released nor withheld
	released   int             // bytes before held
	repeated   bool            // fed and out are kept: the upstream repeats the text
	fed, out   strings.Builder // the text, and what was emitted of it
	withheld   bool            // nothing more is released
	redactions int
	ending     bool      // utterances wait for the result: see release
	pending    []Event   // while ending
	utterances []Verdict // of the text up to and with each
	verdict    Verdict
	scored     bool  // verdict is set, by an event at least
	complete   bool  // verdict is of the whole text
	err        error // why scoring failed
	fedAt      time.Time
}

// newText starts to guard a text. It ends with close, or with the answer. Nothing of it is
// kept once it is released.
func (a *answer) newText(choice int, field string, emit func(string)) *text {
	t := a.makeText(choice, field, emit)
	a.register(t)
	return t
}

// repeatedText is newText for a text that the upstream sends again at its end.
func (a *answer) repeatedText(choice int, field string, emit func(string)) *text {
	t := a.makeText(choice, field, emit)
	t.repeated = true
	a.register(t)
	return t
}

// wholeText is newText for a text that is complete, and sent once it is scored. So all of
// it can wait for the result, unless it is too long for that.
func (a *answer) wholeText(choice int, field, content string) *text {
	t := a.makeText(choice, field, func(string) {})
	t.repeated, t.ending = true, len(content) <= a.config.MaxHeld
	a.register(t)
	t.add(content)
	return t
}

func (a *answer) makeText(choice int, field string, emit func(string)) *text {
	return &text{
		choice: choice, field: field, answer: a, emit: emit,
		wake: make(chan struct{}, 1), drained: make(chan struct{}, 1), ended: make(chan struct{}),
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// add appends a piece. In the modes that enforce, it waits while too much is queued.
func (t *text) add(piece string) {
	if piece == "" || t.hasEnded() || t.repeated && !t.answer.keep(len(piece)) {
		return
	}
	t.mu.Lock()
	t.begun = true
	t.queued.WriteString(piece)
	behind := t.queued.Len() > t.answer.config.MaxHeld
	t.mu.Unlock()
	signal(t.wake)
	if !behind {
		return
	}
	if !t.answer.config.Mode.Enforces() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.giveUp(errBehind)
		t.queued.Reset()
		return
	}
	for behind {
		select {
		case <-t.drained:
		case <-t.ended:
			return
		}
		t.mu.Lock()
		behind = t.queued.Len() > t.answer.config.MaxHeld
		t.mu.Unlock()
	}
}

func (t *text) hasEnded() bool {
	select {
	case <-t.ended:
		return true
	default:
		return false
	}
}

// giveUp records why scoring failed; t.mu is locked.
func (t *text) giveUp(err error) {
	if t.err == nil {
		t.err = err
		t.answer.failed(err)
	}
}

// finish ends the text. Wait for ended.
func (t *text) finish() {
	t.mu.Lock()
	t.closing = true
	t.mu.Unlock()
	signal(t.wake)
}

// close ends the text, waits until it is scored, and returns what was released of it, if
// it is repeated.
func (t *text) close() string {
	t.finish()
	<-t.ended
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.out.String()
}

// isWithheld reports whether text was withheld.
func (t *text) isWithheld() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.withheld
}

// maxPiece bounds what is fed at once, and with it what a verdict waits for.
const maxPiece = 4 << 10 // bytes

// take waits for something to feed, or for the end of the session, for which the piece is
// empty. It returns false at the end of the text.
func (t *text) take(ctx context.Context, lost <-chan struct{}) (piece string, more bool) {
	for {
		t.mu.Lock()
		end, closing := t.queued.Len(), t.closing
		if end > maxPiece {
			end = maxPiece
			for !utf8.RuneStart(t.queued.Bytes()[end]) {
				end--
			}
		}
		piece = string(t.queued.Next(end))
		if t.queued.Len() == 0 {
			t.queued = bytes.Buffer{} // a long text is not kept
		}
		t.mu.Unlock()
		signal(t.drained)
		switch {
		case piece != "":
			return piece, true
		case closing:
			return "", false
		}
		select {
		case <-t.wake:
		case <-lost:
			return "", true
		case <-ctx.Done():
			return "", false
		}
	}
}

// run scores the text until it or ctx ends.
func (t *text) run(ctx context.Context) {
	defer close(t.ended)
	piece, more := t.take(ctx, nil)
	if !more {
		return // an empty text has no verdict
	}
	session, err := t.open(ctx)
	var lost <-chan struct{}
	if err == nil {
		defer t.answer.leave()
		defer session.End()
		lost = session.Done()
	}
	for ; more; piece, more = t.take(ctx, lost) {
		t.mu.Lock()
		if t.emit != nil && !t.withheld {
			t.held.WriteString(piece)
		}
		if t.repeated {
			t.fed.WriteString(piece)
		}
		t.fedAt = time.Now()
		failed, stopped := t.err != nil, t.withheld && t.answer.config.Mode == Stop
		t.mu.Unlock()
		if stopped {
			return
		}
		if err == nil && !failed {
			err = t.feed(ctx, session, piece)
		}
		if err != nil && !t.fail(ctx, err) {
			return
		}
		if err != nil || failed || piece == "" {
			lost = nil // Feed has said why
		}
	}
	if ctx.Err() != nil || t.failure() != nil {
		return
	}
	if err := t.conclude(ctx, session); err != nil {
		t.fail(ctx, err)
	}
}

func (t *text) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

func (t *text) open(ctx context.Context) (Session, error) {
	if err := t.answer.enter(); err != nil {
		return nil, err
	}
	session, err := t.answer.guard.Open(ctx, t.answer.prompt(t.choice), t.report)
	if err != nil {
		t.answer.leave()
	}
	return session, err
}

func (t *text) timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := t.answer.config.VerdictTimeout
	if !t.answer.config.Mode.Enforces() {
		return context.WithCancel(ctx) // the end of the response waits, not the text
	}
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("no verdict within --verdict-timeout, %v", limit))
}

func (t *text) feed(ctx context.Context, session Session, piece string) error {
	ctx, cancel := t.timeout(ctx)
	defer cancel()
	if err := session.Feed(ctx, piece); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held.Len() > t.answer.config.MaxHeld {
		return errHeld
	}
	return nil
}

// conclude releases what waits for the result: the last utterances, and what follows them,
// white space or reasoning.
func (t *text) conclude(ctx context.Context, session Session) error {
	ctx, cancel := t.timeout(ctx)
	defer cancel()
	t.mu.Lock()
	t.ending = t.emit != nil && !t.acted()
	t.mu.Unlock()
	verdict, err := session.Close(ctx)
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	t.mu.Lock()
	verdict.Witness = cmp.Or(verdict.Witness, t.verdict.Witness)
	t.verdict, t.scored, t.complete = verdict, true, true
	t.mu.Unlock()
	if verdict.Truncated {
		return errTruncated
	}
	t.releasePending()
	t.releaseAll()
	return nil
}

// acted reports whether an utterance violated; t.mu is locked.
func (t *text) acted() bool { return t.withheld || t.redactions > 0 }

// releasePending releases what waited for the result. If none of its utterances violates
// but the text does, it violates as a whole: then all that waited does. If nothing waited,
// the text is marked only.
func (t *text) releasePending() {
	t.emitting.Lock()
	defer t.emitting.Unlock()
	t.mu.Lock()
	pending, violates := t.pending, t.ending && !t.verdict.Compliant && !t.verdict.Empty
	t.pending, t.ending = nil, false
	t.mu.Unlock()
	if violates && len(pending) > 0 {
		pending = []Event{{Start: pending[0].Start, End: pending[len(pending)-1].End, Violating: true}}
	}
	for _, e := range pending {
		t.releaseEvent(e)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.withheld = t.withheld || violates && !t.acted()
}

// fail ends scoring. It reports whether the text continues without it.
func (t *text) fail(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false // the client, the upstream or another text has ended the response
	}
	t.mu.Lock()
	t.giveUp(err)
	t.mu.Unlock()
	switch {
	case !t.answer.config.Mode.Enforces():
		return true
	case t.answer.config.FailOpen:
		t.releaseAll()
		return true
	}
	t.answer.abort(fmt.Errorf("%w: %w", errGuard, err))
	return false
}

// releaseAll releases what was fed, unless the text is withheld.
func (t *text) releaseAll() {
	if t.emit == nil {
		return
	}
	t.emitting.Lock()
	defer t.emitting.Unlock()
	t.mu.Lock()
	if t.withheld {
		t.mu.Unlock()
		return
	}
	out := t.leave(t.released + t.held.Len())
	t.left(out)
	t.mu.Unlock()
	if out != "" {
		t.emit(out)
	}
}

// leave takes the text up to a byte from held; t.mu is locked.
func (t *text) leave(end int) string {
	out := string(t.held.Next(max(0, end-t.released)))
	t.released += len(out)
	return out
}

// left records what is emitted; t.mu is locked.
func (t *text) left(out string) {
	if t.repeated {
		t.out.WriteString(out)
	}
}

// report receives the events of the session.
func (t *text) report(e Event) {
	if t.release(e) {
		t.answer.stopped(t)
	}
}

// release emits what an event releases. It reports whether mode stop ends the text. At the
// end of a text, and if all of it is sent at once, utterances wait for the result, unless
// one of them violates: a short text may violate as a whole.
func (t *text) release(e Event) (stopped bool) {
	t.emitting.Lock()
	defer t.emitting.Unlock()
	t.mu.Lock()
	t.record(e)
	if e.Reset || t.emit == nil {
		t.mu.Unlock()
		return false
	}
	events := []Event{e}
	if t.ending {
		t.pending = append(t.pending, e)
		if events = nil; e.Violating {
			events, t.pending, t.ending = t.pending, nil, false
		}
	}
	t.mu.Unlock()
	for _, e := range events {
		stopped = t.releaseEvent(e) || stopped
	}
	return stopped
}

// releaseEvent emits what an event releases; t.emitting is locked.
func (t *text) releaseEvent(e Event) (stopped bool) {
	t.mu.Lock()
	if t.withheld || t.err != nil {
		t.mu.Unlock()
		return false
	}
	var out string
	switch mode := t.answer.config.Mode; {
	case !e.Violating:
		out = t.leave(e.End)
	case mode == Redact:
		out = t.leave(e.Start) + t.answer.config.Redaction
		t.leave(e.End)
		t.redactions++
	default:
		out = t.leave(e.Start)
		t.withheld, t.held = true, bytes.Buffer{}
	}
	t.left(out)
	stopped = t.withheld && t.answer.config.Mode == Stop
	delay := time.Since(t.fedAt)
	t.mu.Unlock()
	t.answer.metrics.delay.Observe(delay.Seconds())
	if out != "" {
		t.emit(out)
	}
	return stopped
}

// record updates the verdict; t.mu is locked.
func (t *text) record(e Event) {
	if e.Reset {
		t.utterances = t.utterances[:min(max(e.Index, 0), len(t.utterances))]
		t.verdict, t.scored = Verdict{}, len(t.utterances) > 0
		if t.scored {
			t.verdict = t.utterances[len(t.utterances)-1]
		}
		return
	}
	now := e.Text
	now.Witness = &Witness{Start: e.Start, End: e.End, Violation: e.Violation}
	if before := t.verdict.Witness; before != nil && before.Violation >= e.Violation {
		now.Witness = before
	}
	t.verdict, t.scored = now, true
	t.utterances = append(t.utterances, now)
}
