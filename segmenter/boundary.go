package segmenter

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// cut returns where the sentence that began at from ends, given the stop st,
// or 0 where the stop does not end it.
func (s *scanner) cut(from int, st stop, end int) int {
	st.after = s.raised(st.after, end)
	a := s.lookAhead(st.after, end)
	if a.next == end {
		return 0 // the block ends anyway
	}
	if a.space == st.after {
		if s.glued(st, end) {
			return st.after
		}
		return 0
	}
	if s.ends(from, st, s.rightOf(a.next, end)) && !s.insideSpeech(from, st, end) {
		return a.cut
	}
	return 0
}

// lookahead is what follows a stop at text[after:] in a block. The stops of one
// run of reference marks share it.
type lookahead struct {
	after, end int
	space      int // end of the white space after the stop
	cut        int // where the sentence ends, if it does
	next       int // first character of the next sentence
}

func (s *scanner) lookAhead(after, end int) lookahead {
	if s.beyond.after == after && s.beyond.end == end {
		return s.beyond
	}
	space := s.skipSpace(after, end)
	a := lookahead{after: after, end: end, space: space, cut: after, next: space}
	if space > after && space < end {
		a.cut, a.next = s.attached(after, space, end)
	}
	s.beyond = a
	return a
}

// insideSpeech tells whether "!" or "?" stands in direct speech that the
// sentence both leads into and goes on after: He cried "Stop! Thief!" and ran.
func (s *scanner) insideSpeech(from int, st stop, end int) bool {
	const behind, ahead = 200, 80 // bytes
	if st.class != exclaim || st.after > st.end || st.start-from > behind {
		return false
	}
	before := s.text[min(s.firstOf(from, end), st.start):st.start]
	s.look(len(before))
	open, mark := strings.LastIndex(before, "“"), "”"
	if open < 0 {
		open, mark = strings.LastIndexByte(before, '"'), `"`
		if strings.Count(before, mark)%2 == 0 {
			return false
		}
	}
	if open <= 0 || strings.Contains(before[open+1:], mark) {
		return false
	}
	s.look(ahead)
	_, rest, _ := strings.Cut(s.text[st.after:min(end, st.after+ahead)], mark)
	next, _ := utf8.DecodeRuneInString(strings.TrimPrefix(rest, " "))
	return unicode.IsLower(next)
}

// right describes the text after a stop and white space.
type right struct {
	start int  // first character
	word  int  // first character that opens no quote, bracket or emphasis
	first rune // text[word]
	end   int  // end of the block
}

func (s *scanner) rightOf(next, end int) right {
	r := right{start: next, word: next, end: end}
	for range 8 {
		c, n := utf8.DecodeRuneInString(s.text[r.word:end])
		r.first = c
		if !opens(c) && !dash(c) {
			break
		}
		r.word += n
	}
	return r
}

func dash(r rune) bool {
	return r == '-' || r == '–' || r == '—' || r == '―' || r == '•' || r == ' '
}

// ends tells whether the stop st ends the sentence that began at from.
func (s *scanner) ends(from int, st stop, r right) bool {
	if strings.ContainsRune(",;:)]}”、，；：", r.first) {
		return false
	}
	switch st.class {
	case final:
		return true
	case exclaim:
		return s.exclaimEnds(from, st, r)
	case ellipsis:
		return !unicode.IsLower(r.first) && s.hasWord(from, st.start)
	default:
		return s.periodEnds(from, st, r)
	}
}

// exclaimEnds decides for "!" and "?". Before a small letter they end direct
// speech, a name (Yahoo! and others) or a sentence written without capitals.
func (s *scanner) exclaimEnds(from int, st stop, r right) bool {
	if st.start > from && s.text[st.start-1] == ':' {
		return false
	}
	if !unicode.IsLower(r.first) {
		return !st.quoted || !s.speaker(r)
	}
	if st.after > st.end {
		return false
	}
	if s.text[st.start] == '!' {
		w := s.wordBefore(from, st.start)
		first, _ := utf8.DecodeRuneInString(w)
		return !unicode.IsUpper(first)
	}
	return true
}

// periodEnds decides for a single ".".
func (s *scanner) periodEnds(from int, st stop, r right) bool {
	w := s.wordBefore(from, st.start)
	if w == "" {
		return s.hasWord(from, st.start)
	}
	closed := st.after > st.end
	small, digit := unicode.IsLower(r.first), unicode.IsDigit(r.first)
	if closed {
		return !small
	}
	if s.enumerator(from, st.start, r.end, w) {
		return false
	}
	capital := startsUpper(w)
	switch s.role(w, st.start-len(w), capital) {
	case title:
		return !small && !digit && w == "St" && s.starts(r)
	case lead:
		return false
	case number:
		return !digit && !small
	case date:
		return !digit && !small && s.starts(r)
	case trail, place:
		return !small && !digit && (s.starts(r) || w == "etc" || w == "ect")
	case clock:
		return !small && !digit && !s.timeWord(r)
	}
	if small {
		return len(w) > 1 && !strings.Contains(w, ".") && (hasVowel(w) || isDigit(w[0]) && len(w) > 2)
	}
	return true
}

// role looks up w, the word at text[at:], and adds the abbreviations that have a form, not a list:
// initials and dotted acronyms.
func (s *scanner) role(w string, at int, capital bool) role {
	if at > 0 && strings.IndexByte("/=!?&#%@_:+~", s.text[at-1]) >= 0 {
		return ordinary // the end of an address or an expression
	}
	if capital && len(w) == 1 {
		return trail
	}
	low := lower(w)
	if r, ok := abbreviations[string(low.buf[:low.n])]; ok && low.n > 0 {
		if (r == date || r == place) && !capital {
			return ordinary
		}
		return r
	}
	if utf8.RuneCountInString(w) == 1 && letter(w) || dotted(w) {
		return trail
	}
	return ordinary
}

// letter tells whether w begins with a letter of a script that abbreviates.
func letter(w string) bool {
	r, _ := utf8.DecodeRuneInString(w)
	return unicode.IsLetter(r) && !spaceless(r)
}

// dotted tells whether w is a run of single letters between periods: U.S
func dotted(w string) bool {
	dot, run := false, 0
	for _, r := range w {
		switch {
		case r == '.':
			dot, run = true, 0
		case run > 0 || !unicode.IsLetter(r):
			return false
		default:
			run++
		}
	}
	return dot
}

// enumerator tells whether w is all there is in the sentence yet, and counts:
// the "2." of an item inside a line.
func (s *scanner) enumerator(from, stop, end int, w string) bool {
	if len(w) > 3 || s.firstOf(from, end) != stop-len(w) {
		return false
	}
	for i := range len(w) {
		if !isDigit(w[i]) {
			return len(w) == 1
		}
	}
	return true
}

// starts tells whether a word that begins sentences comes next.
func (s *scanner) starts(r right) bool {
	if !unicode.IsUpper(r.first) {
		return unicode.IsLetter(r.first) && !unicode.IsLower(r.first)
	}
	low := lower(s.wordAt(r.word, r.end))
	return low.in(starters)
}

// timeWord tells whether a day, a month or a time zone comes next.
func (s *scanner) timeWord(r right) bool {
	w := s.wordAt(r.word, r.end)
	low := lower(w)
	return low.in(timeWords) || len(w) > 1 && w == strings.ToUpper(w)
}

// speaker tells whether a speaker and a verb of speech come next, which belong
// to the direct speech before them.
func (s *scanner) speaker(r right) bool {
	w := s.wordAt(r.word, r.end)
	at := r.word + len(w)
	if w == "" || at >= r.end || s.text[at] != ' ' {
		return false
	}
	verb := s.wordAt(at+1, r.end)
	at += 1 + len(verb)
	low := lower(verb)
	return low.in(speechVerbs) && (at == r.end || strings.IndexByte(".,;:", s.text[at]) >= 0)
}

// longestWord bounds how far a decision looks around, in bytes.
const longestWord = 64

// wordBefore returns the word that ends at text[stop:], with the periods,
// hyphens and apostrophes inside it; empty where there is none or it is very
// long.
func (s *scanner) wordBefore(from, stop int) string {
	i := stop
	for i > from && stop-i <= longestWord {
		if c := s.text[i-1]; c < utf8.RuneSelf {
			if !inWord[c] {
				break
			}
			i--
			continue
		}
		r, n := utf8.DecodeLastRuneInString(s.text[from:i])
		if !wordRune(r) {
			break
		}
		i -= n
	}
	s.look(stop - i)
	for i < stop && strings.IndexByte(".'-", s.text[i]) >= 0 {
		i++
	}
	return strings.TrimPrefix(s.text[i:stop], "’")
}

// wordAt returns the letters and digits from text[i:].
func (s *scanner) wordAt(i, end int) string {
	start := i
	for i < end && i-start <= longestWord {
		r, n := utf8.DecodeRuneInString(s.text[i:end])
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			break
		}
		i += n
	}
	s.look(i - start)
	return s.text[start:i]
}

// inWord is the set of the ASCII characters that wordBefore takes.
var inWord = func() (t [utf8.RuneSelf]bool) {
	for c := range t {
		t[c] = wordRune(rune(c)) || c == '.'
	}
	return t
}()

func wordRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || r == '\'' || r == '’' || r == '-'
}

// hasWord tells whether a letter or digit stands close before the stop, so
// that dots at the start of a sentence do not end it.
func (s *scanner) hasWord(from, stop int) bool {
	const near = 16 // bytes
	for i := stop; i > from && stop-i <= near; {
		r, n := utf8.DecodeLastRuneInString(s.text[from:i])
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return true
		}
		i -= n
	}
	return stop-from > near
}

// glued decides for a stop with no white space after it.
func (s *scanner) glued(st stop, end int) bool {
	next, _ := utf8.DecodeRuneInString(s.text[st.after:end])
	prev, _ := utf8.DecodeLastRuneInString(s.text[:st.start])
	if st.class == final {
		return !strings.ContainsRune("，、；：,;:", next) && !(st.after > st.end && spaceless(next) && s.reported(st.after, end))
	}
	if spaceless(prev) && spaceless(next) {
		return st.class != ellipsis
	}
	if st.after > st.end || !unicode.IsLower(prev) {
		return false
	}
	if st.class == ellipsis && unicode.IsUpper(next) {
		return st.end-st.start >= len("...")
	}
	if st.class == exclaim && unicode.IsLower(next) {
		return s.plainWord(st.end, end)
	}
	if !unicode.IsUpper(next) {
		return false
	}
	w := s.wordAt(st.after, end)
	low := lower(w)
	at := st.after + len(w)
	return low.in(starters) && (at == end || strings.IndexByte(" ,'", s.text[at]) >= 0) && s.longer(st.start)
}

// longer tells whether the word that ends at text[stop:], a letter at least, has
// more than one byte.
func (s *scanner) longer(stop int) bool {
	_, n := utf8.DecodeLastRuneInString(s.text[:stop])
	r, _ := utf8.DecodeLastRuneInString(s.text[:stop-n])
	return n > 1 || unicode.IsLetter(r) || unicode.IsDigit(r) || len(s.wordBefore(0, stop)) > 1
}

// plainWord tells whether the word at text[i:] ends like one of prose, not
// like a part of an address, a query or an expression.
func (s *scanner) plainWord(i, end int) bool {
	w := s.wordAt(i, end)
	i += len(w)
	return len(w) > 1 && (i == end || strings.IndexByte(" ,", s.text[i]) >= 0)
}

// reported tells whether the text after a closing quote reports the speech:
// Japanese と and って, Chinese 说, 道, 问 after a pronoun.
func (s *scanner) reported(i, end int) bool {
	rest := s.text[i:min(end, i+12)]
	if strings.HasPrefix(rest, "と") || strings.HasPrefix(rest, "って") {
		return true
	}
	return strings.ContainsAny(rest, "说說道问問")
}

// attached returns the end of what follows a stop after a space and still
// belongs to its sentence: reference marks, emoticons, stray closing marks; and
// the first character after the white space there.
func (s *scanner) attached(after, next, end int) (cut, begin int) {
	const most, longest = 16, 24 // marks, and bytes of one
	for range most {
		s.look(longest)
		n := attachedLen(s.text[next:min(end, next+longest)])
		if n == 0 {
			break
		}
		after = next + n
		if next = s.skipSpace(after, end); next == after || next == end {
			break
		}
	}
	return after, next
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func startsUpper(w string) bool {
	r, _ := utf8.DecodeRuneInString(w)
	return unicode.IsUpper(r)
}

// hasVowel tells a word from an abbreviation made of consonants.
func hasVowel(w string) bool {
	for _, r := range w {
		if r >= utf8.RuneSelf || strings.ContainsRune("aeiouyAEIOUY", r) {
			return true
		}
	}
	return false
}
