package segmenter

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// attachedLen returns the length of the mark at the start of w that belongs to the
// preceding sentence, or 0.
func (s *scanner) attachedLen(w string) int {
	if n := s.reference(w); n > 0 {
		return n
	}
	if n := s.emoticon(w); n > 0 && s.endsAtSpace(w[n:]) {
		return n
	}
	if n := s.emoji(w); n > 0 && s.endsAtSpace(w[n:]) {
		return n
	}
	if n := s.footnote(w); n > 0 {
		return n
	}
	r, n := utf8.DecodeRuneInString(w)
	if (r == '”' || r == '’' || r == ')' || r == ']' || r == '»' || (r == '"' || r == '\'')) && s.endsAtSpace(w[n:]) {
		return n
	}
	return 0
}

func (s *scanner) endsAtSpace(rest string) bool {
	return s.past(0, len(rest)) || spaceAt(rest) > 0
}

const maxReferenceBytes = 24 // bytes

// reference matches [12], [3, 4], [^5], [...].
func (s *scanner) reference(w string) int {
	if w[0] != '[' {
		return 0
	}
	for i := 1; i < maxReferenceBytes && !s.past(i, len(w)); i++ {
		switch c := w[i]; {
		case c == ']':
			if i == 1 {
				return 0
			}
			if s.endsAtSpace(w[i+1:]) || w[i+1] == '[' {
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
	for !s.past(at, end) {
		if s.text[at] == '[' {
			if s.marks.Start <= at && at < s.marks.End {
				s.charge(at - after)
				return s.marks.End
			}
			n := s.reference(s.text[at:end])
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
	if at > s.marks.End && !(s.open && s.touched) {
		s.marks = Span{after, at}
	}
	return at
}

// pictographs returns the end of emoji and characters without a width that directly follow a terminator and precede white
// space: "Great!👍 More". Without white space they may be a part of anything.
func (s *scanner) pictographs(after, end int) int {
	const maxBytes = 64
	if s.past(after, end) || s.text[after] < utf8.RuneSelf {
		return after
	}
	s.charge(maxBytes)
	return after + s.near(after, end, maxBytes, func(s *scanner, w string) int {
		n := s.emoji(w)
		if n == maxBytes || !s.endsAtSpace(w[n:]) { // what follows maxBytes is not read
			return 0
		}
		return n
	})
}

// zeroWidth reports characters without a width: joiners, variation selectors, marks of direction.
func zeroWidth(r rune) bool {
	return r >= 0x200b && r <= 0x200f || r >= 0x2060 && r <= 0x2064 || r == 0xfe0f || r == 0xfeff
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
func (s *scanner) footnote(w string) int {
	digits := 0
	for !s.past(digits, len(w)) && isDigit(w[digits]) {
		digits++
	}
	if digits == 0 || digits > 3 || digits == len(w) || w[digits] != ' ' {
		return 0
	}
	word, _, complete := strings.Cut(w[digits+1:], " ")
	s.touched = s.touched || !complete && (word == "" || startsUpper(word))
	folded := lower(strings.TrimRight(word, ","))
	if startsUpper(word) && folded.in(starters) {
		return digits
	}
	return 0
}

// emoticon matches eyes, an optional nose and a mouth: :-) ;P =( <3
func (s *scanner) emoticon(w string) int {
	if w[0] == '<' && !s.past(1, len(w)) && w[1] == '3' {
		return 2
	}
	if strings.IndexByte(":;=8xX", w[0]) < 0 {
		return 0
	}
	i := 1
	if !s.past(i, len(w)) && strings.IndexByte("-o'^", w[i]) >= 0 {
		i++
	}
	mouth := i
	for !s.past(i, len(w)) && strings.IndexByte(")(][DPpO/|\\*3", w[i]) >= 0 {
		i++
	}
	if i == mouth {
		return 0
	}
	return i
}

// emoji matches pictographs with their joiners and modifiers, and other characters without a width.
func (s *scanner) emoji(w string) int {
	if c := w[0]; c < utf8.RuneSelf && c != '^' && c != '`' {
		return 0 // most text; these two are the only modifiers of ASCII
	}
	n := 0
	for !s.past(n, len(w)) {
		r, size := utf8.DecodeRuneInString(w[n:])
		if r == utf8.RuneError || !unicode.Is(unicode.So, r) && !unicode.Is(unicode.Sk, r) && !zeroWidth(r) {
			break
		}
		n += size
	}
	return n
}
