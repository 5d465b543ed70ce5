package tokenizer

import (
	"bytes"
	"unicode/utf8"
)

// lowerBlock stands for a space in the vocabularies of SentencePiece, and marks
// the beginning of a word.
const lowerBlock = "▁"

// metaspace cuts a normalized text into words, each of which begins with the
// lower block.
type metaspace struct {
	classes *classes
	punct   bool // punctuation is cut off first
	prefix  bool // a text begins with the lower block even without a space
	split   bool
	off     bool // the text is one word as it is
}

// cut calls yield with each word, none of which is empty.
func (m metaspace) cut(a aligned, yield func(word aligned)) {
	if len(a.text) == 0 {
		return
	}
	if m.off {
		yield(a)
		return
	}
	if !m.punct {
		m.cutPart(a, yield)
		return
	}
	start := 0
	for i := 0; i < len(a.text); {
		k, size := m.classes.at(a.text, i)
		if k&punct != 0 {
			if i > start {
				m.cutPart(a.slice(start, i), yield)
			}
			start = i + size
			m.cutPart(a.slice(i, start), yield)
		}
		i += size
	}
	if start < len(a.text) {
		m.cutPart(a.slice(start, len(a.text)), yield)
	}
}

func (m metaspace) cutPart(a aligned, yield func(word aligned)) {
	a = replace{match: literal(" "), content: lowerBlock}.apply(a)
	if m.prefix && !bytes.HasPrefix(a.text, []byte(lowerBlock)) {
		a = prepend{lowerBlock}.apply(a)
	}
	if !m.split {
		yield(a)
		return
	}
	for len(a.text) > 0 {
		_, first := utf8.DecodeRune(a.text)
		end := len(a.text)
		if i := bytes.Index(a.text[first:], []byte(lowerBlock)); i >= 0 {
			end = first + i
		}
		yield(a.slice(0, end))
		a = a.slice(end, len(a.text))
	}
}
