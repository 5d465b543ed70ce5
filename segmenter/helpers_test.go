package segmenter

import "context"

// segment is Segment for a caller that waits.
func segment(text string) []Span {
	spans, err := Segment(context.Background(), text)
	if err != nil {
		panic(err)
	}
	return spans
}

// limit is Limit for a caller that waits.
func limit(text string, spans []Span, most int, length func(string) int) []Span {
	pieces, err := Limit(context.Background(), text, spans, most, func(s string) (int, error) { return length(s), nil })
	if err != nil {
		panic(err)
	}
	return pieces
}
