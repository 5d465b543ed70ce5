package tokenizer

import (
	"bytes"
	"unicode/utf8"
)

// lowerBlock represents a space in the vocabularies of SentencePiece and marks the
// start of a word.
const lowerBlock = "▁"

// metaspace splits a normalized text into words, each of which starts with the
// lower block.
type metaspace struct {
	classes  *classes
	punct    bool // each punctuation character is split off first
	prefix   bool // a text without a leading space gets a lower block
	split    bool // at spaces
	disabled bool // the whole text is one word
}

// words calls yield with each word, none of which is empty.
func (m metaspace) words(a aligned, yield func(word aligned)) {
	if len(a.text) == 0 {
		return
	}
	if m.disabled {
		yield(a)
		return
	}
	if !m.punct {
		m.splitPart(a, yield)
		return
	}
	start := 0
	for i := 0; i < len(a.text); {
		k, size := m.classes.at(a.text, i)
		if k&punct != 0 {
			if i > start {
				m.splitPart(a.slice(start, i), yield)
			}
			start = i + size
			m.splitPart(a.slice(i, start), yield)
		}
		i += size
	}
	if start < len(a.text) {
		m.splitPart(a.slice(start, len(a.text)), yield)
	}
}

func (m metaspace) splitPart(a aligned, yield func(word aligned)) {
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
