package tokenizer

import (
	"bytes"
	"unicode/utf8"

	"assay/segmenter"
)

// aligned is a text that is being normalized. spans has, for each byte, the bytes
// of the original that it represents; it is nil when no offsets are requested.
type aligned struct {
	text  []byte
	spans []segmenter.Span
}

// align returns a text before normalization; track requests spans.
func align(text []byte, track bool) aligned {
	a := aligned{text: text}
	if !track {
		return a
	}
	a.spans = make([]segmenter.Span, len(text))
	for i := 0; i < len(text); {
		_, size := utf8.DecodeRune(text[i:])
		for k := range size {
			a.spans[i+k] = segmenter.Span{Start: i, End: i + size}
		}
		i += size
	}
	return a
}

// slice returns the part from byte start to byte end.
func (a aligned) slice(start, end int) aligned {
	a.text = a.text[start:end]
	if a.spans != nil {
		a.spans = a.spans[start:end]
	}
	return a
}

// span returns the span of the original that the bytes from start to end represent.
func (a aligned) span(start, end int) segmenter.Span {
	return segmenter.Span{Start: a.spans[start].Start, End: a.spans[end-1].End}
}

// change is a character of the normalized text. With n = 0 it replaces the next
// character of the old text, with n = 1 it is inserted, and with n < 0 it replaces
// the next character and deletes the -n after that.
type change struct {
	r rune
	n int32
}

// changed returns the text with the changes applied. The alignment is that of the
// reference, even where it is wrong: a character deleted at the start of the text
// has no change, so everything after it is aligned one character too early.
func (a aligned) changed(changes []change) aligned {
	b := aligned{text: make([]byte, 0, len(a.text)+8)}
	if a.spans != nil {
		b.spans = make([]segmenter.Span, 0, len(a.text)+8)
	}
	at := 0
	for _, c := range changes {
		from := at
		if c.n > 0 {
			from--
		} else {
			for range 1 - c.n {
				_, size := utf8.DecodeRune(a.text[at:])
				at += size
			}
		}
		n := len(b.text)
		b.text = utf8.AppendRune(b.text, c.r)
		if a.spans != nil {
			for range len(b.text) - n {
				b.spans = append(b.spans, a.spans[max(from, 0)])
			}
		}
	}
	return b
}

// textNormalizer is one of the normalizers of tokenizer.json, other than BertNormalizer.
type textNormalizer interface{ apply(a aligned) aligned }

// strip removes white space at the start, the end or both.
type strip struct {
	classes     *classes
	left, right bool
}

func (s strip) apply(a aligned) aligned {
	start, end := 0, len(a.text)
	for s.left && start < end {
		k, size := s.classes.at(a.text, start)
		if k&space == 0 {
			break
		}
		start += size
	}
	for s.right && end > start {
		r, size := utf8.DecodeLastRune(a.text[:end])
		if s.classes.of(r)&space == 0 {
			break
		}
		end -= size
	}
	return a.slice(start, end)
}

// replace replaces each match with content.
type replace struct {
	match   func(text []byte, start int) (from, to int) // from = len(text): no further match
	content string
}

func (s replace) apply(a aligned) aligned {
	from, to := s.match(a.text, 0)
	if from == len(a.text) {
		return a
	}
	b := aligned{text: make([]byte, 0, len(a.text)+len(a.text)/2)}
	if a.spans != nil {
		b.spans = make([]segmenter.Span, 0, cap(b.text))
	}
	last := 0
	for from < len(a.text) {
		b.text = append(append(b.text, a.text[last:from]...), s.content...)
		if a.spans != nil {
			b.spans = append(b.spans, a.spans[last:from]...)
			for range len(s.content) {
				b.spans = append(b.spans, a.spans[to-1])
			}
		}
		last = to
		from, to = s.match(a.text, to)
	}
	b.text = append(b.text, a.text[last:]...)
	if a.spans != nil {
		b.spans = append(b.spans, a.spans[last:]...)
	}
	return b
}

// literal matches a string.
func literal(pattern string) func([]byte, int) (int, int) {
	return func(text []byte, start int) (int, int) {
		i := bytes.Index(text[start:], []byte(pattern))
		if i < 0 {
			return len(text), len(text)
		}
		return start + i, start + i + len(pattern)
	}
}

// spaces matches the regular expression " {2,}".
func spaces(text []byte, start int) (from, to int) {
	for i := start; i+1 < len(text); i++ {
		if text[i] != ' ' || text[i+1] != ' ' {
			continue
		}
		end := i + 2
		for end < len(text) && text[end] == ' ' {
			end++
		}
		return i, end
	}
	return len(text), len(text)
}

// whiteSpace matches the regular expression "\s{2,}|[\n\r\t]".
func (c *classes) whiteSpace(text []byte, start int) (from, to int) {
	for i := start; i < len(text); {
		k, size := c.at(text, i)
		if k&space == 0 {
			i += size
			continue
		}
		end := i + size
		for end < len(text) {
			k, more := c.at(text, end)
			if k&space == 0 {
				break
			}
			end += more
		}
		if end > i+size || text[i] == '\n' || text[i] == '\r' || text[i] == '\t' {
			return i, end
		}
		i = end
	}
	return len(text), len(text)
}

// prepend prepends content to a nonempty text.
type prepend struct{ content string }

func (s prepend) apply(a aligned) aligned {
	if len(a.text) == 0 {
		return a
	}
	b := aligned{text: append([]byte(s.content), a.text...)}
	if a.spans != nil {
		b.spans = make([]segmenter.Span, 0, len(b.text))
		for range len(s.content) {
			b.spans = append(b.spans, a.spans[0])
		}
		b.spans = append(b.spans, a.spans...)
	}
	return b
}

// lowercase converts each character to lowercase.
type lowercase struct{ classes *classes }

func (s lowercase) apply(a aligned) aligned {
	changes := make([]change, 0, len(a.text))
	for _, r := range string(a.text) {
		switch {
		case r == capitalIWithDot:
			changes = append(changes, change{'i', 0}, change{dotAbove, 1})
		case s.classes.of(r)&upper != 0:
			changes = append(changes, change{s.classes.lower[r], 0})
		default:
			changes = append(changes, change{r, 0})
		}
	}
	return a.changed(changes)
}
