// Package segmenter cuts a text into utterances: the instances of a bag.
//
// An utterance is what a reader would quote as one thing said: a sentence, a
// heading, a list item's sentence, a table row, a whole block of code. Every
// span is exact, so that text[span.Start:span.End] is what the model reads.
//
// The text is read once. Its lines tell blocks apart (blocks.go, markdown.go,
// wrap.go); in a block of prose each stop is a candidate (stops.go,
// sentence.go) that ends an utterance or not by the words around it (decide.go,
// words.go) and takes along what belongs to it (attach.go); marks that are no
// stops may end one too (flat.go).
//
// The time is linear for every text: a rule looks around by a fixed number of
// bytes, or what it reads further (a run of white space or of reference marks) is
// remembered, so that the next terminator does not read it again. The rules count
// what they look at (progress.go). By that count a done context ends the work
// soon, and the tests bound the cost of a byte for combinations of texts that
// make rules look around.
//
// [Limit] then cuts the spans that are longer than a model can read.
package segmenter

// Span is the half-open range [Start, End) of bytes of a text.
type Span struct{ Start, End int }
