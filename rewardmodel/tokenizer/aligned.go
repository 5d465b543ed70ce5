package tokenizer

import (
	"bytes"
	"unicode/utf8"

	"assay/segmenter"
)

// aligned is a text under normalization. spans tells for each byte which bytes
// of the original it stands for; it is nil when no offsets are requested.
type aligned struct {
	text  []byte
	spans []segmenter.Span
}

// align begins with the text itself.
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

// slice is the part from start to end, both in bytes.
func (a aligned) slice(start, end int) aligned {
	a.text = a.text[start:end]
	if a.spans != nil {
		a.spans = a.spans[start:end]
	}
	return a
}

// span is what of the original the bytes from start to end stand for.
func (a aligned) span(start, end int) segmenter.Span {
	return segmenter.Span{Start: a.spans[start].Start, End: a.spans[end-1].End}
}

// change is a character of a new text: in place of the next of the old one
// (0), in addition to what came before (1), or in place of the next, with the
// n after that gone (-n).
type change struct {
	r rune
	n int32
}

// changed is the new text that the changes describe. The alignment is that of
// the reference, also where it is off: a character that goes at the start of
// the text takes no place in the changes, and so all after it are one early.
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

// A step is one of the normalizers of tokenizer.json.
type step interface{ apply(a aligned) aligned }

// strip drops white space at either end.
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

// replace replaces what match finds with content.
type replace struct {
	match   func(text []byte, start int) (from, to int) // from = len(text): no more
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

// literal finds a text.
func literal(what string) func([]byte, int) (int, int) {
	return func(text []byte, start int) (int, int) {
		i := bytes.Index(text[start:], []byte(what))
		if i < 0 {
			return len(text), len(text)
		}
		return start + i, start + i + len(what)
	}
}

// spaces finds two spaces or more: the regular expression " {2,}".
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

// whiteSpace finds two white spaces or more, or one that ends a line or is a
// tab: the regular expression "\s{2,}|[\n\r\t]".
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

// prepend prepends content to a text that is not empty.
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
