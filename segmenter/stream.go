package segmenter

import (
	"context"
	"strings"
)

// Stream segments a text that arrives in pieces. What it returns is, in order, what
// Segment returns for the whole text, however the text is cut into pieces.
// It is not safe for concurrent use.
type Stream struct {
	text strings.Builder
}

// Utterance is a span of the whole text so far and its content.
type Utterance struct {
	Span
	Text string
}

// Feed appends piece, which may start or end inside a character, to the text, and
// returns the utterances that no later text can change.
func (s *Stream) Feed(_ context.Context, piece string) ([]Utterance, error) {
	s.text.WriteString(piece)
	return nil, nil
}

// Close ends the text and returns the remaining utterances.
func (s *Stream) Close(ctx context.Context) ([]Utterance, error) {
	text := s.text.String()
	spans, err := Segment(ctx, text)
	if err != nil {
		return nil, err
	}
	out := make([]Utterance, len(spans))
	for i, span := range spans {
		out[i] = Utterance{span, text[span.Start:span.End]}
	}
	return out, nil
}
