// Package segmenter splits a text into utterances: the instances of a bag.
//
// An utterance is the unit that a reader would quote: a sentence, a heading, a
// sentence of a list item, a table row, a whole block of code. Every span is
// exact, so that text[span.Start:span.End] is what the model reads.
//
// The text is read once. Its line structure separates blocks (blocks.go, line.go,
// markdown.go, verbatim.go) and paragraphs (paragraph.go, wrap.go). In a paragraph each
// terminator is a candidate (terminators.go, sentence.go); the surrounding words decide
// whether it ends an utterance (boundary.go, abbreviations.go), which includes trailing
// marks (trailing_marks.go). Marks that are not terminators can end an utterance in
// text whose line breaks were lost (unwrapped.go).
//
// The time is linear for every text: a rule inspects a fixed number of bytes, or
// caches what it reads beyond that (a run of white space or of reference marks),
// so that the next terminator does not read it again. The rules count the bytes
// that they inspect (progress.go). That count bounds the work after a context is
// done, and the tests use it to bound the cost per byte for combinations of texts
// that make rules inspect their surroundings.
//
// A [Stream] applies the same rules to a text that arrives in pieces (horizon.go,
// retry.go, compact.go): they read a bounded number of bytes ahead, and a decision that
// would read beyond what has arrived waits.
//
// [Limit] then splits the spans that are too long for a model.
package segmenter

// Span is the half-open range [Start, End) of bytes of a text.
type Span struct{ Start, End int }
