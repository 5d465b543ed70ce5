package tokenizer

import "unicode/utf8"

// nextWord returns the end of the word of text that starts at start < len(text),
// by GPT-2's pattern:
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// The alternatives cover every character, so words are adjacent. Each byte is
// read a bounded number of times; text is valid UTF-8.
func (c *classes) nextWord(text []byte, start int) int {
	if n := contraction(text[start:]); n > 0 {
		return start + n
	}
	first := start
	if text[start] == ' ' {
		if start+1 == len(text) {
			return start + 1
		}
		first++ // the optional space before a word
	}
	const kinds = letter | number | space
	kind, size := c.at(text, first)
	if kind &= kinds; kind != space {
		end := first + size
		for end < len(text) {
			k, size := c.at(text, end)
			if k&kinds != kind {
				break
			}
			end += size
		}
		return end
	}
	return c.endOfSpace(text, start)
}

// endOfSpace returns the end of a word of white space: the whole run at the end of
// the text, otherwise all but its last character (which may start the next word), at
// least one.
func (c *classes) endOfSpace(text []byte, start int) int {
	last, end := start, start
	for end < len(text) {
		k, size := c.at(text, end)
		if k&space == 0 {
			if last > start {
				return last
			}
			return end
		}
		last, end = end, end+size
	}
	return end
}

// at returns the class and the length in bytes of the character at text[i:].
func (c *classes) at(text []byte, i int) (class, int) {
	if b := text[i]; b < utf8.RuneSelf {
		return c.pages[0][b], 1
	}
	r, size := utf8.DecodeRune(text[i:])
	return c.of(r), size
}

// contraction returns the length of the English contraction at the start of text, or 0.
func contraction(text []byte) int {
	if len(text) < 2 || text[0] != '\'' {
		return 0
	}
	switch text[1] {
	case 's', 't', 'm', 'd':
		return 2
	}
	if len(text) > 2 {
		switch string(text[1:3]) {
		case "re", "ve", "ll":
			return 3
		}
	}
	return 0
}
