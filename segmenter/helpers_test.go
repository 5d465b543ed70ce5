package segmenter

import "context"

// segment is Segment without a deadline.
func segment(text string) []Span {
	spans, err := Segment(context.Background(), text)
	if err != nil {
		panic(err)
	}
	return spans
}

// limit is Limit without a deadline.
func limit(text string, spans []Span, maxLength int, length func(string) int) []Span {
	pieces, err := Limit(context.Background(), text, spans, maxLength, func(s string) (int, error) { return length(s), nil })
	if err != nil {
		panic(err)
	}
	return pieces
}
