package rewardmodel

import (
	"context"
	"math"
	"strings"

	"github.com/assay-ai/assay/segmenter"
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
	unique  int // index into job.margins; -1 for a blank one, which no model sees
}

func (u utterance) String() string { return u.text[u.span.Start:u.span.End] }

// bag is one response, segmented.
type bag struct {
	utterances []utterance
	truncated  bool
	tokens     []segmenter.Span // of the policy, for a dense reward
}

// prepare segments and tokenizes a request. Equal instances share one margin.
// What the cache knows is filled in; what is left to compute is in
// job.sequences.
func (s *Scorer) prepare(ctx context.Context, req Request) (*job, []bag, error) {
	p := preparation{Scorer: s, job: newJob(req.class()), seen: make(map[key]int)}
	bags := make([]bag, len(req.Responses))
	instances := 0
	for i, item := range req.Responses {
		if err := leftEarly(ctx); err != nil {
			return nil, nil, err
		}
		before, work := p.held(), item.work()
		if err := req.Memory.Grow(work); err != nil {
			return nil, nil, err
		}
		bags[i] = s.segment(item, req.Options)
		if instances += len(bags[i].utterances); instances > s.config.MaxRequestInstances {
			return nil, nil, tooManyInstances(element("responses", i), s.config.MaxRequestInstances)
		}
		if req.Options.Dense != "" {
			tokens, err := s.policyTokens(item, i, req.Options)
			if err != nil {
				return nil, nil, err
			}
			bags[i].tokens = tokens
		}
		for k := range bags[i].utterances {
			if err := leftEarly(ctx); err != nil {
				return nil, nil, err
			}
			u := &bags[i].utterances[k]
			u.unique = p.add(u.String())
		}
		if err := req.Memory.Grow(p.held() - before + bags[i].bytes(req.Options)); err != nil {
			return nil, nil, err
		}
		req.Memory.Shrink(work)
	}
	s.metrics.instances.Add(float64(p.instances))
	s.metrics.cacheMisses.Add(float64(p.misses))
	s.metrics.cacheHits.Add(float64(p.instances - p.misses))
	return p.job, bags, nil
}

// segment turns an item into its instances, at most MaxInstances of them.
func (s *Scorer) segment(item Item, o Options) bag {
	var b bag
	switch {
	case item.Response != nil:
		s.segmentText(&b, *item.Response, 0, nil, o)
	case item.Messages != nil:
		for i, m := range item.Messages {
			if m.Role == RoleAssistant {
				s.segmentText(&b, m.Content, i, new(i), o)
			}
		}
	default:
		for i, text := range item.Instances {
			if i == s.config.MaxInstances {
				b.truncated = true
				break
			}
			b.utterances = append(b.utterances, utterance{text: text, source: i, span: segmenter.Span{End: len(text)}})
		}
	}
	return b
}

func (s *Scorer) segmentText(b *bag, text string, source int, message *int, o Options) {
	parts := []segmenter.Span{{End: len(text)}}
	if o.Reasoning == ReasoningSkip {
		parts = answerParts(text)
	}
	for _, part := range parts {
		inner := text[part.Start:part.End]
		spans := segmenter.Segment(inner)
		room := s.config.MaxInstances - len(b.utterances)
		if len(spans) > room {
			spans, b.truncated = spans[:room], true
		}
		spans = segmenter.Limit(inner, spans, s.room, s.tokenCount)
		if len(spans) > room {
			spans, b.truncated = spans[:room], true
		}
		for _, span := range spans {
			span.Start += part.Start
			span.End += part.Start
			b.utterances = append(b.utterances, utterance{text: text, source: source, message: message, span: span})
		}
	}
}

// tokenCount is the length that the segmenter splits by. No tokenizer makes
// more tokens than bytes, so that a short text need not be tokenized to know
// that it fits.
func (s *Scorer) tokenCount(text string) int {
	if len(text) <= s.room {
		return len(text)
	}
	return len(s.tokenizer.IDs(text))
}

// preparation collects the distinct instances of one request.
type preparation struct {
	*Scorer
	job       *job
	seen      map[key]int
	instances int
	misses    int
}

// add returns the index of text's margin.
func (p *preparation) add(text string) int {
	if strings.TrimSpace(text) == "" {
		return -1
	}
	p.instances++
	k := p.cache.key(text)
	if unique, ok := p.seen[k]; ok {
		return unique
	}
	unique := len(p.job.margins)
	p.seen[k] = unique
	margin, known := p.cache.get(k)
	if known {
		p.job.margins = append(p.job.margins, margin)
		return unique
	}
	p.misses++
	p.job.margins = append(p.job.margins, float32(math.Inf(-1)))
	windows := p.windows(p.tokenizer.IDs(text))
	if len(windows) > 1 {
		p.job.windowed = append(p.job.windowed, windowed{k, unique})
	}
	for i, ids := range windows {
		p.job.add(ids, k.window(i), len(windows) == 1, unique)
	}
	return unique
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
