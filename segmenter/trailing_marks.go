package segmenter

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// attachedLen returns the length of the mark at the start of s that belongs to the
// preceding sentence, or 0.
func attachedLen(s string) int {
	if n := reference(s); n > 0 {
		return n
	}
	if n := emoticon(s); n > 0 && endsAtSpace(s[n:]) {
		return n
	}
	if n := emoji(s); n > 0 && endsAtSpace(s[n:]) {
		return n
	}
	if n := footnote(s); n > 0 {
		return n
	}
	r, n := utf8.DecodeRuneInString(s)
	if (r == '”' || r == '’' || r == ')' || r == ']' || r == '»' || (r == '"' || r == '\'')) && endsAtSpace(s[n:]) {
		return n
	}
	return 0
}

func endsAtSpace(rest string) bool {
	return rest == "" || spaceAt(rest) > 0
}

const maxReferenceBytes = 24 // bytes

// reference matches [12], [3, 4], [^5], [...].
func reference(s string) int {
	if s[0] != '[' {
		return 0
	}
	for i := 1; i < min(len(s), maxReferenceBytes); i++ {
		switch c := s[i]; {
		case c == ']':
			if i == 1 {
				return 0
			}
			if endsAtSpace(s[i+1:]) || s[i+1] == '[' {
				return i + 1
			}
			return 0
		case isDigit(c) || strings.IndexByte("^.,;- ", c) >= 0 || c >= utf8.RuneSelf:
		default:
			return 0
		}
	}
	return 0
}

// referenceMarks returns the end of the reference marks immediately after a
// terminator: [1][2], ², †. A run of marks that contain terminators themselves,
// [.][.], is read once: the end of the run that contains a "[" is cached.
func (s *scanner) referenceMarks(after, end int) int {
	at := after
	for at < end {
		if s.text[at] == '[' {
			if s.marks.Start <= at && at < s.marks.End {
				s.charge(at - after)
				return s.marks.End
			}
			n := reference(s.text[at:end])
			if n == 0 {
				break
			}
			at += n
			continue
		}
		r, n := utf8.DecodeRuneInString(s.text[at:end])
		if !referenceSign(r) {
			break
		}
		at += n
	}
	s.charge(at - after)
	if at > s.marks.End {
		s.marks = Span{after, at}
	}
	return at
}

func referenceSign(r rune) bool {
	switch r {
	case '¹', '²', '³', '⁰', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹', '†', '‡':
		return true
	}
	return false
}

// footnote matches the number of a note, originally superscript, before a word
// that starts sentences: "... in 1820. 4 Even though ..."
func footnote(s string) int {
	digits := 0
	for digits < len(s) && isDigit(s[digits]) {
		digits++
	}
	if digits == 0 || digits > 3 || digits == len(s) || s[digits] != ' ' {
		return 0
	}
	word, _, _ := strings.Cut(s[digits+1:], " ")
	folded := lower(strings.TrimRight(word, ","))
	if startsUpper(word) && folded.in(starters) {
		return digits
	}
	return 0
}

// emoticon matches eyes, an optional nose and a mouth: :-) ;P =( <3
func emoticon(s string) int {
	if strings.HasPrefix(s, "<3") {
		return 2
	}
	if strings.IndexByte(":;=8xX", s[0]) < 0 {
		return 0
	}
	i := 1
	if i < len(s) && strings.IndexByte("-o'^", s[i]) >= 0 {
		i++
	}
	mouth := i
	for i < len(s) && strings.IndexByte(")(][DPpO/|\\*3", s[i]) >= 0 {
		i++
	}
	if i == mouth {
		return 0
	}
	return i
}

// emoji matches pictographs with their joiners and modifiers.
func emoji(s string) int {
	if c := s[0]; c < utf8.RuneSelf && c != '^' && c != '`' {
		return 0 // most text; these two are the only modifiers of ASCII
	}
	n := 0
	for n < len(s) {
		r, size := utf8.DecodeRuneInString(s[n:])
		if r == utf8.RuneError || !unicode.Is(unicode.So, r) && !unicode.Is(unicode.Sk, r) && r != 0x200D && r != 0xFE0F {
			break
		}
		n += size
	}
	return n
}
