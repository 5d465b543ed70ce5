package rewardmodel

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/rs/xid"

	"assay/rewardmodel/batching"
	"assay/rewardmodel/reasoning"
	"assay/segmenter"
)

// LiveRequest opens the live scoring of one response that is still being written.
type LiveRequest struct {
	ID      string // the client's; generated when empty
	Prompt  string // as in Item
	Model   string // as in Request
	Options Options
	// Provisional scores the open utterance whenever it has grown by so many tokens, at
	// least MinProvisional; 0: only completed utterances are scored.
	Provisional int
	// MaxUtterances is the maximum number of utterances that the response will have, as
	// its caller knows from the limit of its tokens, for LiveEvent.Stop only; 0:
	// ScorerConfig.MaxInstances.
	MaxUtterances int
	Memory        *Reservation // as in Request; it grows with the session
	Source        string       // as in Request
	// Scored is called once, when the session is closed, with the request that scores
	// the whole response, and its result; nil: nobody needs them.
	Scored func(context.Context, Request, ScoreResponse)
}

// MinProvisional is the minimum of LiveRequest.Provisional that is not 0. It bounds how
// often the same text is scored.
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
	if r.MaxUtterances < 0 {
		return Invalidf("max_utterances", "must be positive, or 0 if unknown, got %d", r.MaxUtterances)
	}
	if r.Options.Dense != "" && r.Options.Tokenizer == "" {
		return Invalidf("options.dense", "needs the tokens of the response; name the tokenizer in options.tokenizer")
	}
	return nil
}

// LiveEvent is what a live session reports: a scored utterance, or Reset.
type LiveEvent struct {
	// Reset reports that the events of utterances from Utterance.Index on are void: a
	// closing tag of reasoning without an opening one showed that this text was not the
	// answer. The index is 0, all of them, unless there was an answer before an earlier
	// block of reasoning. The other fields are zero.
	Reset     bool
	Utterance LiveUtterance
	Violation float64 // of the response so far: the aggregate of its utterances, in [0,1]
	Reward    float64 // of the response so far, on the scale that was asked for
	// Compliant is the decision about the response so far: what Result.Compliant would be
	// if the response ended here, except that a short one may only violate as a whole (see
	// Live). It may change in both directions.
	Compliant bool
	// Stop reports that the response can no longer become compliant, whatever follows
	// (see Live). Once true it remains true until a Reset.
	Stop bool
}

// LiveUtterance is a scored utterance. Start and End are in Options.OffsetUnit and
// index the response; Bytes is the end as a byte offset of the text that was fed.
type LiveUtterance struct {
	Index      int // in Result.Instances
	Start, End int
	Bytes      int
	Text       string
	Violation  float64 // of the aspect that decides, in [0,1]
	// Violating reports that this utterance alone is above the threshold of the response
	// so far, for an aspect that counts.
	Violating bool
	// Provisional reports that the utterance is still open: a later event with the same
	// or a smaller Index replaces this one. Of a long open utterance, it is the end.
	Provisional bool
}

// Live scores a response while it is being written. It is not safe for concurrent
// use.
//
// # When a response can no longer become compliant
//
// LiveEvent.Stop assumes that utterances follow up to LiveRequest.MaxUtterances, all of
// them with violation 0. So it is true for max if the violation is above the threshold of
// a response of that length (Aspect.LengthSlope raises it), for noisy_or if it is above
// the threshold, for topk if so is the mean over k utterances, and for mean if so is the
// mean over all of these utterances. With several aspects, it is true if that holds for
// one that counts, since every Combination decides by the aspect with the least
// compliance.
//
// # Cost
//
// Each utterance is tokenized and scored once, as by Score, and in the same windows. A
// model that reads prompts computes the prompt once for each Feed that completes
// utterances, not once per response. Provisional scores are in addition.
//
// A short part of the answer that is also read as a whole (ScorerConfig.WholeCharacters)
// is when it ends. The violation of the result may then be larger than that of the
// events of utterances that were reported before.
type Live struct {
	scorer  *Scorer
	ticket  batching.Ticket // of all its jobs
	request LiveRequest     // with default options
	combine combiner
	work    preparation // its job holds all margins of the session
	err     error       // why the session has failed
	timing  Timing

	text   strings.Builder
	filter reasoning.Filter
	sent   int               // of text: it is divided into utterances, or is not the answer
	stream *segmenter.Stream // of the current part of the answer
	part   livePart

	utterances []utterance
	wholes     []wholeReading // of parts that are complete, and not scored yet
	truncated  bool
	scored     int // utterances that are scored and reported
	verdict    verdict
	spans      spanCounter
	open       openUtterance
	tokens     LiveTokens
}

// LiveTokens are the tokens that a session has sent to the model, with special tokens and
// those of the prompt. What the cache knew is not counted.
type LiveTokens struct{ Settled, Provisional int }

// livePart is a part of the answer, between blocks of reasoning, as it begins.
type livePart struct {
	began      bool
	start      int // byte offset
	utterances int // before it
	truncated  bool
	verdict    *verdict // before its first scored utterance; nil: it has none
	reported   bool     // an event of one of its utterances was returned
}

// Live opens a live session. Its errors are those of Score that concern the request.
func (s *Scorer) Live(ctx context.Context, request LiveRequest) (*Live, error) {
	if err := request.Validate(); err != nil {
		return nil, err
	}
	if err := s.accepts(request.Model); err != nil {
		return nil, err
	}
	if request.ID == "" {
		request.ID = xid.New().String()
	}
	request.Options = request.Options.withDefaults()
	combine, err := s.combiner(request.Options)
	if err != nil {
		return nil, err
	}
	if request.Options.Dense != "" {
		if _, err := s.policyTokenizer(request.Options.Tokenizer); err != nil {
			return nil, err
		}
	}
	l := &Live{scorer: s, ticket: batching.Ticket{ID: rand.Uint64()}, request: request, combine: combine, stream: new(segmenter.Stream)}
	l.work = preparation{Scorer: s, job: newJob(batching.Interactive, s.aspects()), seen: map[key]int{}, contexts: map[key]*promptContext{}}
	l.filter = reasoning.NewFilter(request.Prompt, request.Options.Reasoning == ReasoningSkipOpened)
	l.verdict = s.emptyVerdict(combine, request.Options)
	l.spans = newSpanCounter(request.Options.OffsetUnit)
	prompt := textWork(request.Prompt[max(0, len(request.Prompt)-contextBytes*s.config.ContextTokens):])
	if err := request.Memory.Grow(prompt); err != nil {
		return nil, err
	}
	defer request.Memory.Shrink(prompt)
	if err := l.work.setContext(ctx, Item{Prompt: request.Prompt}, nil); err != nil {
		return nil, cmp.Or(canceled(ctx), err)
	}
	if err := request.Memory.Grow(l.work.held()); err != nil {
		return nil, err
	}
	return l, nil
}

// ID is that of the request, or the generated one.
func (l *Live) ID() string { return l.request.ID }

// Tokens returns the work of the session so far.
func (l *Live) Tokens() LiveTokens { return l.tokens }

// Feed appends text to the response, scores the utterances that it settles, and
// returns an event for each. The text may start or end inside a character. Its errors are
// those of Score. After an error the session has failed.
func (l *Live) Feed(ctx context.Context, text string) ([]LiveEvent, error) {
	return l.advance(ctx, text, false)
}

// Close ends the response. It returns the events of its last utterances, and the
// result, which equals that of Score for the whole response.
func (l *Live) Close(ctx context.Context) ([]LiveEvent, ScoreResponse, error) {
	events, err := l.advance(ctx, "", true)
	if err != nil {
		return nil, ScoreResponse{}, err
	}
	start := time.Now()
	text := l.text.String()
	b := bag{utterances: l.utterances, truncated: l.truncated}
	for i := range b.utterances {
		b.utterances[i].text = text // releases the earlier ones
	}
	o := l.request.Options
	req := Request{
		Responses: []Item{{ID: l.request.ID, Prompt: l.request.Prompt, Response: &text}},
		Model:     l.request.Model, Options: o, Priority: PriorityInteractive, Memory: l.request.Memory, Source: l.request.Source,
	}
	if o.Dense != "" {
		err := l.tokenizing(text, func() (err error) {
			b.tokens, err = l.scorer.policyTokens(ctx, req.Responses[0], 0, o)
			return err
		})
		if err != nil {
			return nil, ScoreResponse{}, l.fail(ctx, err)
		}
	}
	if err := l.request.Memory.Grow(b.bytes(o, l.scorer.aspects())); err != nil {
		return nil, ScoreResponse{}, l.fail(ctx, err)
	}
	answer := l.scorer.respond(ctx, req, []bag{b}, l.work.job, l.combine)
	l.timing.Total += milliseconds(time.Since(start))
	answer.TimingMS = l.timing
	if l.request.Scored != nil {
		l.request.Scored(ctx, req, answer)
	}
	l.err = errLiveClosed
	return events, answer, nil
}

var errLiveClosed = errors.New("the live session is closed")

// fail ends the session with an error.
func (l *Live) fail(ctx context.Context, err error) error {
	if cause := canceled(ctx); cause != nil {
		err = cause
	}
	l.err = l.scorer.rejected(err)
	return l.err
}

// streamBytes is the memory of a byte of text: in the growing buffer of the session, the
// earlier buffers that its utterances use, and the segmenter.
const streamBytes = 5

// advance appends text and returns what it settles.
func (l *Live) advance(ctx context.Context, text string, final bool) ([]LiveEvent, error) {
	if l.err != nil {
		return nil, l.err
	}
	if err := canceled(ctx); err != nil {
		return nil, l.fail(ctx, err)
	}
	start := time.Now()
	defer func() { l.timing.Total += milliseconds(time.Since(start)) }()
	memory := l.request.Memory
	if err := memory.Grow(streamBytes * int64(len(text))); err != nil {
		return nil, l.fail(ctx, err)
	}
	l.text.WriteString(text)
	before := l.work.held()
	temporary := l.segmentWork(len(text))
	if err := memory.Grow(temporary); err != nil {
		return nil, l.fail(ctx, err)
	}
	defer memory.Shrink(temporary)
	events, err := l.settle(ctx, final)
	if err == nil {
		err = l.score(ctx)
	}
	if err == nil {
		err = memory.Grow(l.work.held() - before)
	}
	if err != nil {
		return nil, l.fail(ctx, err)
	}
	events = append(events, l.report()...)
	if !final {
		provisional, err := l.scoreOpen(ctx)
		if err != nil {
			return nil, l.fail(ctx, err)
		}
		events = append(events, provisional...)
	}
	return events, nil
}

// segmentWork is the temporary memory of segmenting the text that is not settled, of
// which the last bytes are new.
func (l *Live) segmentWork(bytes int) int64 {
	switch {
	case l.part.began:
		bytes = l.text.Len() - max(l.open.start, l.part.start)
	case !l.filter.Inside():
		bytes = l.text.Len() - l.sent
	}
	return workBytes * int64(bytes)
}

// settle divides the new text into utterances. It returns a Reset if earlier ones are
// void.
func (l *Live) settle(ctx context.Context, final bool) (events []LiveEvent, err error) {
	text := l.text.String()
	for _, p := range l.pieces(text, final) {
		if p.Void {
			if l.part.reported {
				events = append(events, LiveEvent{Reset: true, Utterance: LiveUtterance{Index: l.part.utterances}})
			}
			l.dropPart()
			continue
		}
		if !l.part.began {
			l.part = livePart{began: true, start: p.Start, utterances: len(l.utterances), truncated: l.truncated}
		}
		if p.Start < p.End {
			settled, err := l.stream.Feed(ctx, text[p.Start:p.End])
			if err == nil {
				err = l.add(ctx, text, settled)
			}
			if err != nil {
				return nil, err
			}
		}
		if p.Ends {
			if err := l.closePart(ctx, text); err != nil {
				return nil, err
			}
		}
	}
	if final && l.part.began {
		return events, l.closePart(ctx, text)
	}
	return events, nil
}

// pieces returns the new pieces of the answer.
func (l *Live) pieces(text string, final bool) []reasoning.Piece {
	if l.request.Options.Reasoning != ReasoningScore {
		pieces := l.filter.Feed(text, final)
		l.sent = l.filter.Sent()
		return pieces
	}
	piece := reasoning.Piece{Span: segmenter.Span{Start: l.sent, End: len(text)}}
	l.sent = len(text)
	return []reasoning.Piece{piece}
}

func (l *Live) closePart(ctx context.Context, text string) error {
	settled, err := l.stream.Close(ctx)
	if err != nil {
		return err
	}
	err = l.add(ctx, text, settled)
	if w, ok := l.scorer.wholeOf(l.utterances, l.part.utterances, l.truncated); ok {
		l.wholes = append(l.wholes, w)
	}
	l.nextPart()
	return err
}

// dropPart forgets the current part of the answer.
func (l *Live) dropPart() {
	if l.part.began {
		l.utterances, l.truncated = l.utterances[:l.part.utterances], l.part.truncated
		l.scored = min(l.scored, len(l.utterances))
		if l.part.verdict != nil {
			l.verdict = *l.part.verdict
		}
	}
	l.nextPart()
}

// nextPart prepares for another part, which begins with its first piece.
func (l *Live) nextPart() {
	l.stream, l.part = new(segmenter.Stream), livePart{utterances: len(l.utterances)}
}

// add appends utterances of the current part, divided like those of Score.
func (l *Live) add(ctx context.Context, text string, settled []segmenter.Span) error {
	length := func(text string) (int, error) { return l.work.count(ctx, text) }
	for _, u := range settled {
		span := segmenter.Span{Start: l.part.start + u.Start, End: l.part.start + u.End}
		l.open = openUtterance{start: span.End}
		if l.room() == 0 {
			l.truncated = true
			continue
		}
		inner := text[span.Start:span.End]
		var pieces []segmenter.Span
		err := l.tokenizing(inner, func() (err error) {
			pieces, err = segmenter.Limit(ctx, inner, []segmenter.Span{{End: len(inner)}}, l.scorer.room, length)
			return err
		})
		if err != nil {
			return err
		}
		if room := l.room(); len(pieces) > room {
			pieces, l.truncated = pieces[:room], true
		}
		if err := l.request.Memory.Grow(utteranceBytes * int64(len(pieces))); err != nil {
			return err
		}
		for _, p := range pieces {
			p = segmenter.Span{Start: span.Start + p.Start, End: span.Start + p.End}
			l.utterances = append(l.utterances, utterance{text: text, span: p})
		}
	}
	if len(l.utterances) > l.scorer.config.MaxRequestInstances {
		return TooManyInstances("text", l.scorer.config.MaxRequestInstances)
	}
	return nil
}

// tokenizing charges the temporary memory of tokenizing text while run does so.
func (l *Live) tokenizing(text string, run func() error) error {
	work := textWork(text)
	if err := l.request.Memory.Grow(work); err != nil {
		return err
	}
	defer l.request.Memory.Shrink(work)
	return run()
}

// room is how many more utterances are scored.
func (l *Live) room() int { return l.scorer.config.MaxInstances - len(l.utterances) }

// more is how many utterances may follow the first n of the response.
func (l *Live) more(n int) int {
	most := l.scorer.config.MaxInstances
	if l.request.MaxUtterances > 0 {
		most = min(most, l.request.MaxUtterances)
	}
	return max(0, most-n)
}

// score computes the margins of the new utterances, and of the parts that are complete with them.
func (l *Live) score(ctx context.Context) error {
	fresh, wholes := l.utterances[l.scored:], l.wholes
	if len(fresh)+len(wholes) == 0 {
		return nil
	}
	l.wholes = nil
	if err := l.request.Memory.Grow(wholeBytes * int64(len(wholes))); err != nil {
		return err
	}
	tokens, err := l.compute(ctx, &l.work, func() error {
		for i := range fresh {
			if err := canceled(ctx); err != nil {
				return err
			}
			u := &fresh[i]
			err := l.tokenizing(u.String(), func() (err error) {
				u.unique, err = l.work.add(ctx, u.String())
				return err
			})
			if err != nil {
				return err
			}
		}
		for i := range wholes {
			text := wholes[i].text(l.utterances)
			err := l.tokenizing(text, func() (err error) {
				wholes[i].unique, err = l.work.add(ctx, text)
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	l.tokens.Settled += tokens
	if err == nil && raise(l.utterances, wholes, l.work.job) < l.scored {
		l.recount()
	}
	return err
}

// recount computes the verdict again from the utterances that are reported, whose margins have changed.
func (l *Live) recount() {
	l.verdict = l.scorer.emptyVerdict(l.combine, l.request.Options)
	for i, u := range l.utterances[:l.scored] {
		if u.unique >= 0 {
			l.verdict.add(l.combine, l.request.Options.Reward, l.work.job.marginsOf(u.unique), l.more(i+1))
		}
	}
}

// compute has the model score what add adds to p, in a job of its own that begins with
// the margins of the last one. It returns the tokens that the model had to read.
func (l *Live) compute(ctx context.Context, p *preparation, add func() error) (tokens int, err error) {
	t := l.ticket
	if err := l.scorer.checkAdmission(batching.Interactive, &t, 1); err != nil {
		return 0, err
	}
	start := time.Now()
	margins := p.job.margins
	p.job = newJob(batching.Interactive, l.scorer.aspects())
	p.job.margins, p.job.Ticket = margins, t
	p.instances, p.misses = 0, 0
	if p.context != nil {
		p.context.queued = false
	}
	if err := add(); err != nil {
		return 0, err
	}
	l.scorer.metrics.instances.Add(float64(p.instances))
	l.scorer.metrics.cacheMisses.Add(float64(p.misses))
	l.scorer.metrics.cacheHits.Add(float64(p.instances - p.misses))
	prepared := time.Now()
	l.timing.Tokenize += milliseconds(prepared.Sub(start))
	if tokens = p.job.Tokens(); p.job.Remaining() > 0 {
		if err := l.scorer.compute(ctx, p.job); err != nil {
			return 0, err
		}
		l.timing.Queue += milliseconds(time.Since(prepared) - p.job.inference)
		l.timing.Inference += milliseconds(p.job.inference)
	}
	return tokens, nil
}

// report returns the events of the utterances that were scored since the last one.
func (l *Live) report() []LiveEvent {
	fresh := l.utterances[l.scored:]
	if len(fresh) == 0 {
		return nil
	}
	events := make([]LiveEvent, 0, len(fresh))
	for _, u := range fresh {
		if l.scored == l.part.utterances { // the first one of the part; those of earlier parts stay
			l.part.verdict = new(l.verdict.clone())
		}
		events = append(events, l.event(u, l.spans.count(u.text, u.span), l.work.job, &l.verdict, l.more(l.scored+1)))
		l.scored++
	}
	l.part.reported = l.part.reported || l.scored > l.part.utterances
	return events
}

// event adds a scored utterance to the verdict and describes both. more is how many
// utterances may follow.
func (l *Live) event(u utterance, span segmenter.Span, work *job, v *verdict, more int) LiveEvent {
	violation, violating := 0.0, false
	if u.unique >= 0 {
		margins := work.marginsOf(u.unique)
		v.add(l.combine, l.request.Options.Reward, margins, more)
		violation, violating = Violation(margins[v.decides]), v.violates(l.combine, margins)
	}
	return LiveEvent{
		Utterance: LiveUtterance{
			Index: l.scored, Start: span.Start, End: span.End, Bytes: u.span.End, Text: wellFormed(u.String()),
			Violation: violation, Violating: violating,
		},
		Violation: v.violation, Reward: v.reward, Compliant: v.compliant, Stop: v.stop,
	}
}
