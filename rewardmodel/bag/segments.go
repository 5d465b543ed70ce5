package bag

import (
	"context"
	"unicode/utf8"

	"assay/rewardmodel/reasoning"
	"assay/segmenter"
)

const roleAssistant = "assistant"

// Segment is one instance of a bag with its position in the text.
type Segment struct {
	Text    string
	Message int    // index into Messages, or into Instances, or 0
	Span    [2]int // [start, end) in code points of that message, instance or response
}

// Texts returns the texts of the bag that are scored: Instances, or the contents
// of the assistant's messages, or the response.
func (b Bag) Texts() []string {
	switch {
	case b.Messages != nil:
		var texts []string
		for _, m := range b.Messages {
			if m.Role == roleAssistant {
				texts = append(texts, m.Content)
			}
		}
		return texts
	case b.Instances != nil:
		return b.Instances
	}
	return []string{b.Response}
}

// Segments returns the instances of the bag in document order: Instances as
// given, or else the utterances of the assistant's messages or of the
// response, without reasoning (see reasoning.Answer), which assay does not score by
// default. An utterance with length(text) > limit is split, not truncated; a
// limit of 0 means none, and length may then be nil. It returns the error of ctx if ctx
// is done first, or that of length.
func (b Bag) Segments(ctx context.Context, limit int, length func(string) (int, error)) ([]Segment, error) {
	switch {
	case b.Messages != nil:
		var out []Segment
		for i, m := range b.Messages {
			if m.Role != roleAssistant {
				continue
			}
			var err error
			if out, err = appendSegments(ctx, out, i, m.Content, limit, length); err != nil {
				return nil, err
			}
		}
		return out, nil
	case b.Instances != nil:
		out := make([]Segment, len(b.Instances))
		for i, text := range b.Instances {
			out[i] = Segment{Text: text, Message: i, Span: [2]int{0, utf8.RuneCountInString(text)}}
		}
		return out, nil
	}
	return appendSegments(ctx, nil, 0, b.Response, limit, length)
}

// appendSegments appends the utterances of a text, except those of its reasoning.
func appendSegments(ctx context.Context, out []Segment, message int, text string, limit int, length func(string) (int, error)) ([]Segment, error) {
	at, points := 0, 0 // the same position in bytes and in code points
	for _, part := range reasoning.Answer(text, false) {
		inner := text[part.Start:part.End]
		spans, err := segmenter.Segment(ctx, inner)
		if err == nil && limit > 0 {
			spans, err = segmenter.Limit(ctx, inner, spans, limit, length)
		}
		if err != nil {
			return nil, err
		}
		for _, s := range spans {
			s.Start, s.End = part.Start+s.Start, part.Start+s.End
			start := points + utf8.RuneCountInString(text[at:s.Start])
			end := start + utf8.RuneCountInString(text[s.Start:s.End])
			out = append(out, Segment{Text: text[s.Start:s.End], Message: message, Span: [2]int{start, end}})
			at, points = s.End, end
		}
	}
	return out, nil
}

// Whole returns the text from the first of its segments to the end of the last one. It is false if the segments are not all of
// one text that was divided, or if there is reasoning between them.
func (b Bag) Whole(segments []Segment) (string, bool) {
	if b.Instances != nil || len(segments) == 0 {
		return "", false
	}
	first, last := segments[0], segments[len(segments)-1]
	if first.Message != last.Message {
		return "", false
	}
	text := b.Response
	if b.Messages != nil {
		text = b.Messages[first.Message].Content
	}
	if len(reasoning.Answer(text, false)) != 1 {
		return "", false
	}
	return string([]rune(text)[first.Span[0]:last.Span[1]]), true
}

// Gold returns for each segment of the bag whether it is anomalous by the gold
// marks: whether a span overlaps it or it is the witness. It returns nil for a
// violation without marks; without marks, no segment of a compliant bag is
// anomalous.
func (b Bag) Gold(segments []Segment) []bool {
	if b.Witness == nil && b.Spans == nil && b.Verdict() != Compliant {
		return nil
	}
	gold := make([]bool, len(segments))
	if w := b.Witness; w != nil && *w < len(gold) {
		gold[*w] = true
	}
	for i, s := range segments {
		for _, span := range b.Spans {
			gold[i] = gold[i] || span[0] < s.Span[1] && s.Span[0] < span[1]
		}
	}
	return gold
}
