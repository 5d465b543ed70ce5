package rewardmodel

import (
	"math"
	"unicode/utf8"

	"github.com/rs/xid"

	"assay/segmenter"
)

// render turns a bag and the margins of its instances into a result.
func (s *Scorer) render(item Item, b bag, margins []float32, o Options) Result {
	scale := s.scale(o.Aggregate)
	r := Result{ID: item.ID, Threshold: scale.threshold, Truncated: b.truncated}
	if r.ID == "" {
		r.ID = xid.New().String()
	}
	witness, scored := -1, make([]float32, 0, len(b.utterances))
	highest := float32(math.Inf(-1))
	for i, u := range b.utterances {
		if u.unique < 0 {
			continue
		}
		m := margins[u.unique]
		scored = append(scored, m)
		if witness < 0 || m > highest {
			witness, highest = i, m
		}
	}
	spans := convert(b.utterances, o.OffsetUnit)
	if *o.Instances {
		r.Instances = make([]Instance, len(b.utterances))
		for i, u := range b.utterances {
			r.Instances[i] = Instance{Message: u.message, Start: spans[i].Start, End: spans[i].End}
			if u.unique >= 0 {
				r.Instances[i].Violation = Violation(margins[u.unique])
			}
		}
	}
	if witness < 0 {
		r.Empty = true
		r.Reward = scale.emptyReward(o.Reward, s.config.EmptyReward)
		r.Violation = scale.emptyScore(s.config.EmptyReward).violation
		r.Compliant = s.config.EmptyReward >= 0.5
		return r
	}
	score := aggregate(o.Aggregate, *o.TopK, scored)
	r.Violation = score.violation
	r.Compliant = score.violation <= scale.threshold
	r.Reward = scale.reward(o.Reward, score)
	u := b.utterances[witness]
	r.Witness = &Witness{
		Index: witness, Message: u.message, Start: spans[witness].Start, End: spans[witness].End,
		Text: wellFormed(u.String()), Violation: Violation(highest),
	}
	return r
}

func (s *Scorer) scale(a Aggregate) scale {
	return scale{threshold: s.Threshold(a), calibration: s.config.Calibration[a]}
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
