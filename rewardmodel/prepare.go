package rewardmodel

import (
	"cmp"
	"context"
	"math"
	"strings"

	"assay/rewardmodel/batching"
	"assay/rewardmodel/reasoning"
	"assay/segmenter"
)

// windowOverlap is how many tokens two windows of an over-long instance share,
// so that a phrase at the seam is seen whole by one of them.
const windowOverlap = 32

// utterance is one instance of a response, before and after scoring.
type utterance struct {
	text    string // the text that span indexes
	source  int    // which text of the item that is
	message *int   // which message text is the content of
	span    segmenter.Span
	unique  int // see job.marginsOf; -1 for a blank one, which no model sees
}

func (u utterance) String() string { return u.text[u.span.Start:u.span.End] }

// bag is one response, segmented.
type bag struct {
	utterances []utterance
	wholes     []wholeReading
	truncated  bool
	tokens     []segmenter.Span // of the policy, for a dense reward
}

// margins returns the margins of the bag's instances that are not blank, for one
// aspect.
func (b bag) margins(work *job, aspect int) []float32 {
	out := make([]float32, 0, len(b.utterances))
	for _, u := range b.utterances {
		if u.unique >= 0 {
			out = append(out, work.marginsOf(u.unique)[aspect])
		}
	}
	return out
}

// prepare segments and tokenizes a request, and rejects it as soon as it has more
// tokens than the queue has room for. Equal instances share one margin. What the cache
// knows is filled in; what is left to compute is added to the job.
func (s *Scorer) prepare(ctx context.Context, req Request, t batching.Ticket) (*job, []bag, error) {
	p := preparation{Scorer: s, job: newJob(req.priority(), s.aspects()), seen: make(map[key]int), contexts: make(map[key]*promptContext)}
	p.job.computing, p.job.Exclusive, p.job.Ticket = req.Exclusive, req.Exclusive != nil, t
	bags := make([]bag, len(req.Responses))
	instances := 0
	for i, item := range req.Responses {
		if err := canceled(ctx); err != nil {
			return nil, nil, err
		}
		before, work := p.held(), item.work(contextBytes*s.config.ContextTokens)
		if err := req.Memory.Grow(work); err != nil {
			return nil, nil, err
		}
		b, err := p.bag(ctx, item, req.Options)
		if err != nil {
			return nil, nil, cmp.Or(canceled(ctx), err)
		}
		bags[i] = b
		if instances += len(bags[i].utterances); instances > s.config.MaxRequestInstances {
			return nil, nil, TooManyInstances(element("responses", i), s.config.MaxRequestInstances)
		}
		if req.Options.Dense != "" {
			tokens, err := s.policyTokens(ctx, item, i, req.Options)
			if err != nil {
				return nil, nil, cmp.Or(canceled(ctx), err)
			}
			bags[i].tokens = tokens
		}
		for k := range bags[i].wholes {
			w := &bags[i].wholes[k]
			if err := p.setContext(ctx, item, bags[i].utterances[w.first].message); err != nil {
				return nil, nil, cmp.Or(canceled(ctx), err)
			}
			if w.unique, err = p.add(ctx, w.text(bags[i].utterances)); err != nil {
				return nil, nil, cmp.Or(canceled(ctx), err)
			}
		}
		if err := req.Memory.Grow(p.held() - before + bags[i].bytes(req.Options, s.aspects())); err != nil {
			return nil, nil, err
		}
		req.Memory.Shrink(work)
	}
	s.metrics.instances.Add(float64(p.instances))
	s.metrics.cacheMisses.Add(float64(p.misses))
	s.metrics.cacheHits.Add(float64(p.instances - p.misses))
	return p.job, bags, nil
}

// bag turns an item into its instances, at most MaxInstances of them, and adds each.
func (p *preparation) bag(ctx context.Context, item Item, o Options) (b bag, err error) {
	switch {
	case item.Response != nil:
		err = p.text(ctx, &b, item, *item.Response, nil, o)
	case item.Messages != nil:
		for i, m := range item.Messages {
			if m.Role == RoleAssistant && err == nil {
				err = p.text(ctx, &b, item, m.Content, new(i), o)
			}
		}
	default:
		for i, text := range item.Instances {
			if i == p.config.MaxInstances {
				b.truncated = true
				break
			}
			if err := p.utterance(ctx, &b, item, utterance{text: text, source: i, span: segmenter.Span{End: len(text)}}); err != nil {
				return b, err
			}
		}
	}
	return b, err
}

// text adds the utterances of a response, or of the given one of its messages, each
// divided so that it fits.
func (p *preparation) text(ctx context.Context, b *bag, item Item, text string, message *int, o Options) error {
	u := utterance{text: text, message: message}
	if message != nil {
		u.source = *message
	}
	parts := []segmenter.Span{{End: len(text)}}
	if o.Reasoning != ReasoningScore {
		parts = reasoning.Answer(text, o.Reasoning == ReasoningSkipOpened)
	}
	length := func(text string) (int, error) { return p.count(ctx, text) }
	for _, part := range parts {
		first := len(b.utterances)
		inner := text[part.Start:part.End]
		spans, err := segmenter.Segment(ctx, inner)
		if err != nil {
			return err
		}
		for i := range spans {
			room := p.config.MaxInstances - len(b.utterances)
			if room == 0 {
				b.truncated = true
				return nil
			}
			pieces, err := segmenter.Limit(ctx, inner, spans[i:i+1], p.room, length)
			if err != nil {
				return err
			}
			if len(pieces) > room {
				pieces, b.truncated = pieces[:room], true
			}
			for _, piece := range pieces {
				u.span = segmenter.Span{Start: part.Start + piece.Start, End: part.Start + piece.End}
				if err := p.utterance(ctx, b, item, u); err != nil {
					return err
				}
			}
		}
		if w, ok := p.wholeOf(b.utterances, first, b.truncated); ok {
			b.wholes = append(b.wholes, w)
		}
	}
	return nil
}

// utterance adds an utterance of an item to its bag.
func (p *preparation) utterance(ctx context.Context, b *bag, item Item, u utterance) (err error) {
	if err := canceled(ctx); err != nil {
		return err
	}
	if n := len(b.utterances); n == 0 || u.message != b.utterances[n-1].message {
		if err := p.setContext(ctx, item, u.message); err != nil {
			return err
		}
	}
	tokens := p.job.Tokens()
	if u.unique, err = p.add(ctx, u.String()); err != nil {
		return err
	}
	b.utterances = append(b.utterances, u)
	if p.job.Tokens() == tokens {
		return nil
	}
	return p.checkAdmission(p.job.Priority, &p.job.Ticket, p.job.Tokens())
}

// count is the length that the segmenter splits by. No tokenizer makes more tokens than
// bytes of ASCII, so that a short text of these need not be tokenized to know that it
// fits; the normalization of others may make them longer. The tokens of the last text
// that fits are kept for add.
func (p *preparation) count(ctx context.Context, text string) (int, error) {
	if len(text) <= p.room && isASCII(text) {
		return len(text), nil
	}
	ids, err := p.tokenizer.IDsContext(ctx, text)
	if err == nil && len(ids) <= p.room {
		p.counted.text, p.counted.ids = text, ids
	}
	return len(ids), err
}

// preparation collects the distinct instances of one request.
type preparation struct {
	*Scorer
	job       *job
	seen      map[key]int
	contexts  map[key]*promptContext // by the key of their text
	context   *promptContext         // of the instances that are added; nil: none
	instances int
	misses    int
	counted   struct {
		text string
		ids  []int32
	}
}

// add returns the index of text's margin.
func (p *preparation) add(ctx context.Context, text string) (int, error) {
	if strings.TrimSpace(text) == "" {
		return -1, nil
	}
	p.instances++
	k := p.key(text)
	if unique, ok := p.seen[k]; ok {
		return unique, nil
	}
	unique := p.job.distinct()
	p.seen[k] = unique
	margins, known := p.cache.get(k)
	if known {
		p.job.margins = append(p.job.margins, margins...)
		return unique, nil
	}
	p.misses++
	for range p.aspects() {
		p.job.margins = append(p.job.margins, float32(math.Inf(-1)))
	}
	ids := p.counted.ids
	if p.counted.text != text {
		var err error
		if ids, err = p.tokenizer.IDsContext(ctx, text); err != nil {
			return 0, err
		}
	}
	windows := p.windows(ids)
	if len(windows) > 1 {
		p.job.windowed = append(p.job.windowed, windowed{k, unique})
	}
	for i, ids := range windows {
		p.addSequence(ids, window(k, i), len(windows) == 1, unique)
	}
	return unique, nil
}

// windows frames ids for the model: whole when they fit, else in overlapping
// windows of the model's length.
func (s *Scorer) windows(ids []int32) [][]int32 {
	if len(ids) <= s.room {
		return [][]int32{s.tokenizer.Frame(ids)}
	}
	step := s.room - min(windowOverlap, s.room/4)
	var out [][]int32
	for start := 0; ; start += step {
		end := min(start+s.room, len(ids))
		out = append(out, s.tokenizer.Frame(ids[start:end]))
		if end == len(ids) {
			return out
		}
	}
}
