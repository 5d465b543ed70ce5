// Package segmenter cuts a text into utterances: the instances of a bag.
//
// An utterance is what a reader would quote as one thing said: a sentence, a
// heading, a list item, a table row, a whole block of code. Every span is
// exact, so that text[span.Start:span.End] is what the model reads.
package segmenter

// Span is the half-open range [Start, End) of bytes of a text.
type Span struct{ Start, End int }
