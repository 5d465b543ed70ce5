package rewardmodel

import (
	"unicode/utf8"

	"github.com/rs/xid"

	"assay/segmenter"
)

// render turns a bag and the margins of its instances into a result. compliance is its
// reward on the scale RewardCompliance.
func (s *Scorer) render(item Item, b bag, work *job, c combiner, o Options) (r Result, compliance float64) {
	r = Result{ID: item.ID, Truncated: b.truncated}
	if r.ID == "" {
		r.ID = xid.New().String()
	}
	spans := convert(b.utterances, o.OffsetUnit)
	bags := make([]scoredBag, s.aspects())
	for a := range bags {
		bags[a] = b.score(work, a, o)
	}
	var decides int
	if r.Empty = bags[0].witness < 0; r.Empty {
		decides, r.Reward = c.empty(o.Reward, s.config.EmptyReward)
		compliance = s.config.EmptyReward
	} else {
		scores := make([]bagScore, len(bags))
		for a := range bags {
			scores[a] = bags[a].bagScore
		}
		decides = c.deciding(scores)
		r.Reward = c.reward(o.Reward, scores)
		if compliance = r.Reward; o.Reward != RewardCompliance {
			compliance = c.reward(RewardCompliance, scores)
		}
	}
	results := make([]AspectResult, len(bags))
	for a, scored := range bags {
		if o.Aspects || a == decides {
			results[a] = s.renderAspect(b, scored, c.scales[a], spans, o)
		}
	}
	r.Violation, r.Threshold = results[decides].Violation, results[decides].Threshold
	r.Compliant, r.Witness = results[decides].Compliant, results[decides].Witness
	if *o.Instances {
		r.Instances = make([]Instance, len(b.utterances))
		for i, u := range b.utterances {
			r.Instances[i] = Instance{Message: u.message, Start: spans[i].Start, End: spans[i].End}
			if u.unique < 0 {
				continue
			}
			margins := work.marginsOf(u.unique)
			r.Instances[i].Violation = Violation(margins[decides])
			if o.Aspects {
				r.Instances[i].Aspects = make(map[string]float64, len(margins))
				for a, m := range margins {
					r.Instances[i].Aspects[s.config.Aspects[a].Name] = Violation(m)
				}
			}
		}
	}
	if len(bags) > 1 {
		r.Aspect = s.config.Aspects[decides].Name
		r.Scores = s.scores(bags, c, r.Empty)
	}
	if o.Aspects {
		r.Aspects = make(map[string]AspectResult, len(bags))
		for a, result := range results {
			r.Aspects[s.config.Aspects[a].Name] = result
		}
	}
	return r, compliance
}

// scores are the scores of a bag for each aspect; nil if it is empty.
func (s *Scorer) scores(bags []scoredBag, c combiner, empty bool) []AspectScore {
	if empty {
		return nil
	}
	out := make([]AspectScore, len(bags))
	for a, b := range bags {
		out[a] = AspectScore{s.config.Aspects[a].Name, b.violation, c.scales[a].thresholdOf(b.bagScore)}
	}
	return out
}

// scoredBag is the score of a bag for one aspect, and its witness: the utterance
// with the largest margin, or -1 when there is none.
type scoredBag struct {
	bagScore
	witness int
	highest float32
}

func (b bag) score(work *job, aspect int, o Options) scoredBag {
	out := scoredBag{witness: -1}
	for i, u := range b.utterances {
		if u.unique < 0 {
			continue
		}
		if m := work.marginsOf(u.unique)[aspect]; out.witness < 0 || m > out.highest {
			out.witness, out.highest = i, m
		}
	}
	if out.witness >= 0 {
		out.bagScore = aggregate(o.Aggregate, *o.TopK, b.margins(work, aspect))
	}
	return out
}

func (s *Scorer) renderAspect(b bag, scored scoredBag, on scale, spans []segmenter.Span, o Options) AspectResult {
	if scored.witness < 0 {
		return AspectResult{
			Reward:    on.emptyReward(o.Reward, s.config.EmptyReward),
			Compliant: s.config.EmptyReward >= 0.5,
			Violation: on.emptyScore(s.config.EmptyReward).violation,
			Threshold: on.threshold,
		}
	}
	u, threshold := b.utterances[scored.witness], on.thresholdOf(scored.bagScore)
	return AspectResult{
		Reward:    on.reward(o.Reward, scored.bagScore),
		Compliant: scored.violation <= threshold,
		Violation: scored.violation,
		Threshold: threshold,
		Witness: &Witness{
			Index: scored.witness, Message: u.message, Start: spans[scored.witness].Start, End: spans[scored.witness].End,
			Text: wellFormed(u.String()), Violation: Violation(scored.highest),
		},
	}
}

// wellFormed replaces each byte of text that is not valid UTF-8 by U+FFFD, one
// for one, so that code-point offsets still fit.
func wellFormed(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return string([]rune(text))
}

// convert counts the spans of utterances in unit, text by text.
func convert(utterances []utterance, unit OffsetUnit) []segmenter.Span {
	out := make([]segmenter.Span, 0, len(utterances))
	for start := 0; start < len(utterances); {
		end := start + 1
		for end < len(utterances) && utterances[start].source == utterances[end].source {
			end++
		}
		spans := make([]segmenter.Span, 0, end-start)
		for _, u := range utterances[start:end] {
			spans = append(spans, u.span)
		}
		out = append(out, unit.Convert(utterances[start].text, spans)...)
		start = end
	}
	return out
}
