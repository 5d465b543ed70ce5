package tokenizer

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"assay/segmenter"
)

// wordPiece is BERT's model (Devlin et al. 2019; Schuster and Nakajima 2012): a
// word is split greedily into the longest pieces of the vocabulary.
type wordPiece struct {
	norm     normalizer
	cache    *wordCache
	tokens   []string // by id
	first    pieces   // pieces at the start of a word
	rest     pieces   // pieces inside a word, without their prefix
	prefix   string   // "##"
	unknown  int32
	maxChars int // longer words are unknown
}

// pieces looks up pieces; none is longer than longest bytes.
type pieces struct {
	ids     map[string]int32
	longest int
}

func (p *pieces) add(piece string, id int32) {
	p.ids[piece] = id
	p.longest = max(p.longest, len(piece))
}

// longestPrefix returns the longest piece that is a prefix of word.
func (p *pieces) longestPrefix(word []byte) (id int32, length int, ok bool) {
	for end := min(len(word), p.longest); end > 0; end-- {
		if end < len(word) && !utf8.RuneStart(word[end]) {
			continue
		}
		if id, ok := p.ids[string(word[:end])]; ok {
			return id, end, true
		}
	}
	return 0, 0, false
}

func newWordPiece(v *vocabulary, norm normalizer, unknown, prefix string, maxChars int) (*wordPiece, error) {
	id, ok := v.ids[unknown]
	if !ok {
		return nil, fmt.Errorf("vocabulary: the unknown token %q is missing", unknown)
	}
	w := &wordPiece{
		norm: norm, cache: newWordCache(), tokens: v.tokens, prefix: prefix, unknown: id, maxChars: maxChars,
		first: pieces{ids: make(map[string]int32, len(v.ids))},
		rest:  pieces{ids: make(map[string]int32, len(v.ids))},
	}
	for token, id := range v.ids {
		w.first.add(token, id)
		if inner, ok := strings.CutPrefix(token, prefix); ok {
			w.rest.add(inner, id)
		}
	}
	return w, nil
}

// encodeWord appends the pieces of one normalized word, or the unknown token.
func (w *wordPiece) encodeWord(_ *cancellation, dst []int32, word []byte) []int32 {
	if len(word) > w.maxChars && utf8.RuneCount(word) > w.maxChars {
		return append(dst, w.unknown)
	}
	n := len(dst)
	id, length, ok := w.first.longestPrefix(word)
	for ok {
		dst = append(dst, id)
		if word = word[length:]; len(word) == 0 {
			return dst
		}
		id, length, ok = w.rest.longestPrefix(word)
	}
	return append(dst[:n], w.unknown)
}

func (w *wordPiece) appendIDs(ctx context.Context, dst []int32, text []byte) []int32 {
	words := wordReader{normalizer: &w.norm, text: text}
	cancel := cancellation{ctx: ctx}
	for words.next() && !cancel.done(len(words.word)) {
		dst = w.cache.append(&cancel, dst, words.word, w.encodeWord)
	}
	return dst
}

func (w *wordPiece) encode(ctx context.Context, text []byte) Encoding {
	cancel := cancellation{ctx: ctx}
	words := wordReader{normalizer: &w.norm, text: text, track: true}
	e := Encoding{IDs: make([]int32, 0, len(text)/4+1), Offsets: make([]segmenter.Span, 0, len(text)/4+1)}
	for words.next() && !cancel.done(len(words.word)) {
		n := len(e.IDs)
		e.IDs = w.cache.append(nil, e.IDs, words.word, w.encodeWord)
		spans := words.spans
		if len(e.IDs) == n+1 { // a whole word, known or unknown
			e.Offsets = append(e.Offsets, segmenter.Span{Start: spans[0].Start, End: spans[len(spans)-1].End})
			continue
		}
		for i, id := range e.IDs[n:] {
			length := len(w.tokens[id])
			if i > 0 {
				length -= len(w.prefix)
			}
			e.Offsets = append(e.Offsets, segmenter.Span{Start: spans[0].Start, End: spans[length-1].End})
			spans = spans[length:]
		}
	}
	return e
}
