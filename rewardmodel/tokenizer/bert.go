package tokenizer

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"assay/segmenter"
	"golang.org/x/text/unicode/norm"
)

// normalizer holds the settings of BertNormalizer.
type normalizer struct {
	classes      *classes
	cleanText    bool // remove control characters, replace white space by spaces
	chineseChars bool // each Chinese character is a word
	stripAccents bool // decompose canonically and remove nonspacing marks
	lowercase    bool

	// plain maps an ASCII character that is part of a word to its normalized form,
	// and any other to 0.
	plain [utf8.RuneSelf]byte
}

// withClasses returns the settings with the character classes, ready to use.
func (n normalizer) withClasses(c *classes) normalizer {
	n.classes = c
	for r := range rune(utf8.RuneSelf) {
		switch k := c.of(r); {
		case k&(space|punct) != 0 || n.cleanText && k&remove != 0:
		case n.lowercase && k&upper != 0:
			n.plain[r] = byte(c.lower[r])
		default:
			n.plain[r] = byte(r)
		}
	}
	return n
}

// wordReader splits a text into the words of BertPreTokenizer after BertNormalizer,
// in one pass: white space separates words, and each punctuation character is a word.
//
// The state between two characters is the current word (buf and, with track, the
// span in the text of each of its bytes), the words that are complete but not
// yet read, and the combining marks to be put in canonical order.
type wordReader struct {
	*normalizer
	text  []byte
	track bool

	word  []byte           // the word that next found; valid until the next call
	spans []segmenter.Span // of each byte of word, when track is set

	pos     int
	buf     []byte
	all     []segmenter.Span // of each byte of buf
	ends    []int            // where the words in buf end
	read    int              // words read of ends
	open    int              // where the unfinished word starts in buf
	pending []pendingRune
	sources []segmenter.Span // of the characters in pending that were not added by decomposition
	last    segmenter.Span   // of the character consumed last
}

// pendingRune is a combining character that is ordered with those after it.
type pendingRune struct {
	r     rune
	order uint8
	added bool // by a decomposition, which has another first character
}

// next finds the next word, which is never empty.
func (w *wordReader) next() bool {
	for w.read == len(w.ends) {
		if w.pos == len(w.text) {
			w.flush()
			w.endWord()
			if w.read == len(w.ends) {
				return false
			}
			break
		}
		w.discard()
		w.fill()
	}
	start := 0
	if w.read > 0 {
		start = w.ends[w.read-1]
	}
	end := w.ends[w.read]
	w.word = w.buf[start:end]
	if w.track {
		w.spans = w.all[start:end]
	}
	w.read++
	return true
}

// discard removes the words that were read.
func (w *wordReader) discard() {
	w.buf = append(w.buf[:0], w.buf[w.open:]...)
	if w.track {
		w.all = append(w.all[:0], w.all[w.open:]...)
	}
	w.ends, w.read, w.open = w.ends[:0], 0, 0
}

// fill reads characters until a word is complete or the text ends.
func (w *wordReader) fill() {
	for w.pos < len(w.text) && len(w.ends) == 0 {
		if len(w.pending) == 0 && w.run() {
			continue
		}
		start := w.pos
		r, size := rune(w.text[start]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(w.text[start:])
		}
		w.pos += size
		w.add(r, segmenter.Span{Start: start, End: w.pos})
	}
}

// run adds the plain characters that follow: the fast path for most text.
func (w *wordReader) run() bool {
	start := w.pos
	for _, b := range w.text[start:] {
		if b >= utf8.RuneSelf || w.plain[b] == 0 {
			break
		}
		w.buf = append(w.buf, w.plain[b])
		if w.track {
			w.all = append(w.all, segmenter.Span{Start: w.pos, End: w.pos + 1})
		}
		w.pos++
	}
	return w.pos > start
}

// add normalizes one character of the text.
func (w *wordReader) add(r rune, from segmenter.Span) {
	k := w.classes.of(r)
	if w.cleanText {
		if k&remove != 0 {
			return
		}
		if k&space != 0 {
			r, k = ' ', space
		}
	}
	if w.chineseChars && k&chinese != 0 {
		w.start(' ', from)
		w.decomposed(r, k, from)
		w.start(' ', from)
		return
	}
	w.decomposed(r, k, from)
}

// decomposed adds a character, decomposed canonically if accents are stripped.
func (w *wordReader) decomposed(r rune, k class, from segmenter.Span) {
	if !w.stripAccents || k&(decompose|combining) == 0 {
		w.start(r, from)
		return
	}
	if k&decompose == 0 {
		w.part(r, from, false)
		return
	}
	if r >= hangulBase {
		if parts, ok := hangul(r); ok {
			for i, part := range parts {
				w.part(part, from, i > 0)
			}
			return
		}
	}
	var text [utf8.UTFMax]byte
	parts := norm.NFD.Properties(utf8.AppendRune(text[:0], r)).Decomposition()
	for i := 0; i < len(parts); {
		part, size := utf8.DecodeRune(parts[i:])
		w.part(part, from, i > 0)
		i += size
	}
}

// part adds one character of a decomposition. Combining characters are collected
// until the next other character, and then put in canonical order.
func (w *wordReader) part(r rune, from segmenter.Span, added bool) {
	if w.classes.of(r)&combining == 0 {
		w.start(r, from)
		return
	}
	w.pending = append(w.pending, pendingRune{r: r, order: w.classes.orders[r], added: added})
	if !added {
		w.sources = append(w.sources, from)
	}
}

// start adds a character that is not combining.
func (w *wordReader) start(r rune, from segmenter.Span) {
	if len(w.pending) > 0 {
		w.flush()
	}
	w.last = from
	w.emit(r, from)
}

// flush adds the pending marks in canonical order. Their spans keep the order of
// the text, as in the reference's alignment.
func (w *wordReader) flush() {
	slices.SortStableFunc(w.pending, func(a, b pendingRune) int { return cmp.Compare(a.order, b.order) })
	next := 0
	for _, p := range w.pending {
		if !p.added {
			w.last = w.sources[next]
			next++
		}
		w.emit(p.r, w.last)
	}
	w.pending, w.sources = w.pending[:0], w.sources[:0]
}

// emit adds a normalized character to the words and ends words where needed.
func (w *wordReader) emit(r rune, from segmenter.Span) {
	k := w.classes.of(r)
	switch {
	case k == 0 || k == letter:
		w.put(r, from)
	case k&space != 0:
		w.endWord()
	case w.stripAccents && k&mark != 0:
	case k&punct != 0:
		w.endWord()
		w.put(r, from)
		w.endWord()
	case w.lowercase && r == capitalIWithDot:
		w.put('i', from)
		w.put(dotAbove, from)
	case w.lowercase && k&upper != 0:
		w.put(w.classes.lower[r], from)
	default:
		w.put(r, from)
	}
}

// The only uppercase letter whose lowercase form is two characters.
const (
	capitalIWithDot = 'İ'
	dotAbove        = '\u0307'
)

func (w *wordReader) put(r rune, from segmenter.Span) {
	n := len(w.buf)
	w.buf = utf8.AppendRune(w.buf, r)
	if w.track {
		for range len(w.buf) - n {
			w.all = append(w.all, from)
		}
	}
}

// endWord ends the current word.
func (w *wordReader) endWord() {
	if len(w.buf) > w.open {
		w.open = len(w.buf)
		w.ends = append(w.ends, w.open)
	}
}

// Hangul syllables decompose by arithmetic (Unicode Standard, section 3.12).
const (
	hangulBase = 0xAC00
	hangulEnd  = 0xD7A4
	leadBase   = 0x1100
	vowelBase  = 0x1161
	trailBase  = 0x11A7
	vowels     = 21
	trails     = 28
)

// hangul returns the jamo of a syllable.
func hangul(r rune) ([]rune, bool) {
	if r < hangulBase || r >= hangulEnd {
		return nil, false
	}
	i := r - hangulBase
	parts := []rune{leadBase + i/(vowels*trails), vowelBase + i%(vowels*trails)/trails, trailBase + i%trails}
	if i%trails == 0 {
		parts = parts[:2]
	}
	return parts, true
}
