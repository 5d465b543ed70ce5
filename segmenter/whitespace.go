package segmenter

import "unicode/utf8"

// asciiSpace reports whether c is one of the ASCII white space characters.
func asciiSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// wideSpace reports whether r >= utf8.RuneSelf is white space. It equals
// unicode.IsSpace, as a test verifies, and is faster on long runs of spaces.
func wideSpace(r rune) bool {
	switch r {
	case 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000:
		return true
	}
	return 0x2000 <= r && r <= 0x200A
}

// spaceAt returns the length of the white space character that s begins with,
// or 0.
func spaceAt(s string) int {
	if c := s[0]; c < utf8.RuneSelf {
		if asciiSpace(c) {
			return 1
		}
		return 0
	}
	r, n := utf8.DecodeRuneInString(s)
	if !wideSpace(r) {
		return 0
	}
	return n
}

// skipSpace returns the first character of text[i:end] that is not white
// space, or end.
func (s *scanner) skipSpace(i, end int) int {
	start := i
	for !s.past(i, end) {
		n := spaceAt(s.text[i:end])
		if n == 0 {
			break
		}
		i += n
	}
	s.charge(i - start)
	return i
}

// leadingSpace caches the index of the first character of a sentence: rules that
// need it at each terminator would otherwise read a long run of spaces repeatedly.
type leadingSpace struct{ from, first int }

// firstOf returns the index of the first non-space character of the sentence that
// starts at from, or end, the end of its block.
func (s *scanner) firstOf(from, end int) int {
	if s.lead.from == from && s.lead.first < end {
		return s.lead.first
	}
	first := s.skipSpace(from, end)
	if first < end {
		s.lead = leadingSpace{from, first}
	}
	return first
}
