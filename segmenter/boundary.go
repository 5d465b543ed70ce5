package segmenter

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// cut returns where the terminator st ends the sentence that starts at from, or 0
// when it does not end it.
func (s *scanner) cut(from int, st terminator, end int) int {
	st.after = s.referenceMarks(st.after, end)
	after := s.pictographs(st.after, end)
	a := s.lookAhead(after, end)
	if a.next == end {
		return 0 // the block ends anyway
	}
	if a.space == after {
		if after == st.after && s.glued(st, end) {
			return st.after
		}
		return 0
	}
	if s.endsSentence(from, st, s.rightOf(a.next, end)) && !s.insideSpeech(from, st, end) {
		return a.cut
	}
	return 0
}

// lookahead describes what follows a terminator at text[after:] in a block. The
// terminators in one run of reference marks share it.
type lookahead struct {
	after, end int
	space      int // end of the white space after the terminator
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
	if !s.open || !s.touched {
		s.beyond = a
	}
	return a
}

// insideSpeech reports whether "!" or "?" is in direct speech that the sentence
// both introduces and continues after: He cried "Stop! Thief!" and ran.
func (s *scanner) insideSpeech(from int, st terminator, end int) bool {
	const behind, ahead = 200, 80 // bytes
	if st.class != exclaim || st.after > st.end || st.start-from > behind {
		return false
	}
	before := s.text[min(s.firstOf(from, end), st.start):st.start]
	s.charge(len(before))
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
	s.charge(ahead)
	near, complete := s.ahead(st.after, end, ahead)
	_, rest, _ := strings.Cut(near, mark)
	rest = strings.TrimPrefix(rest, " ")
	s.touched = s.touched || rest == "" && !complete
	next, _ := utf8.DecodeRuneInString(rest)
	return unicode.IsLower(next)
}

// right describes the text after a terminator and white space.
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
		if s.past(r.word, end) || !opens(c) && !dash(c) {
			break
		}
		r.word += n
	}
	return r
}

func dash(r rune) bool {
	return r == '-' || r == '–' || r == '—' || r == '―' || r == '•' || r == ' '
}

// endsSentence reports whether the terminator st ends the sentence that starts at
// from.
func (s *scanner) endsSentence(from int, st terminator, r right) bool {
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

// exclaimEnds decides for "!" and "?". Before a lowercase letter they end direct
// speech, a name (Yahoo! and others) or a sentence written without uppercase
// letters.
func (s *scanner) exclaimEnds(from int, st terminator, r right) bool {
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
func (s *scanner) periodEnds(from int, st terminator, r right) bool {
	w := s.wordBefore(from, st.start)
	if w == "" {
		return s.hasWord(from, st.start)
	}
	closed := st.after > st.end
	lowercase, digit := unicode.IsLower(r.first), unicode.IsDigit(r.first)
	if closed {
		return !lowercase
	}
	if s.enumerator(from, st.start, r.end, w) {
		return false
	}
	capitalized := startsUpper(w)
	switch s.role(w, st.start-len(w), capitalized) {
	case title:
		return !lowercase && !digit && w == "St" && s.startsSentence(r)
	case lead:
		return false
	case number:
		return !digit && !lowercase
	case date:
		return !digit && !lowercase && s.startsSentence(r)
	case trail, place:
		return !lowercase && !digit && (s.startsSentence(r) || w == "etc" || w == "ect")
	case clock:
		return !lowercase && !digit && !s.timeWord(r)
	}
	if lowercase {
		return len(w) > 1 && !strings.Contains(w, ".") && (hasVowel(w) || isDigit(w[0]) && len(w) > 2)
	}
	return true
}

// role looks up w, the word at text[at:], and recognizes the abbreviations that
// have a pattern instead of a list: initials and dotted acronyms.
func (s *scanner) role(w string, at int, capitalized bool) role {
	if at > 0 && strings.IndexByte("/=!?&#%@_:+~", s.text[at-1]) >= 0 {
		return ordinary // the end of an address or an expression
	}
	if capitalized && len(w) == 1 {
		return trail
	}
	folded := lower(w)
	if r, ok := abbreviations[string(folded.buf[:folded.n])]; ok && folded.n > 0 {
		switch {
		case (r == date || r == place) && !capitalized:
			return ordinary
		case r == rank && capitalized:
			return title
		case r == rank: // "your prof. He"
			return trail
		}
		return r
	}
	if utf8.RuneCountInString(w) == 1 && letter(w) || dotted(w) {
		return trail
	}
	return ordinary
}

// letter reports whether w begins with a letter of a script that abbreviates.
func letter(w string) bool {
	r, _ := utf8.DecodeRuneInString(w)
	return unicode.IsLetter(r) && !spaceless(r)
}

// dotted reports whether w is a run of single letters between periods: U.S
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

// enumerator reports whether w is the whole sentence so far and a number or a
// single letter: the "2." of an item inside a line.
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

// startsSentence reports whether a word that starts sentences comes next.
func (s *scanner) startsSentence(r right) bool {
	if !unicode.IsUpper(r.first) {
		return unicode.IsLetter(r.first) && !unicode.IsLower(r.first)
	}
	folded := lower(s.wordAt(r.word, r.end))
	return folded.in(starters)
}

// timeWord reports whether a day, a month or a time zone comes next.
func (s *scanner) timeWord(r right) bool {
	w := s.wordAt(r.word, r.end)
	folded := lower(w)
	return folded.in(timeWords) || len(w) > 1 && w == strings.ToUpper(w)
}

// speaker reports whether a speaker and a verb of speech come next, which belong
// to the direct speech before them.
func (s *scanner) speaker(r right) bool {
	w := s.wordAt(r.word, r.end)
	at := r.word + len(w)
	if w == "" || s.past(at, r.end) || s.text[at] != ' ' {
		return false
	}
	verb := s.wordAt(at+1, r.end)
	at += 1 + len(verb)
	folded := lower(verb)
	return folded.in(speechVerbs) && (s.past(at, r.end) || strings.IndexByte(".,;:", s.text[at]) >= 0)
}

// maxWordBytes bounds how far a decision inspects its surroundings.
const maxWordBytes = 64

// wordBefore returns the word that ends at text[stop:], with the periods, hyphens
// and apostrophes inside it; it is empty when there is none or it is too long.
func (s *scanner) wordBefore(from, stop int) string {
	i := stop
	for i > from && stop-i <= maxWordBytes {
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
	s.charge(stop - i)
	for i < stop && strings.IndexByte(".'-", s.text[i]) >= 0 {
		i++
	}
	return strings.TrimPrefix(s.text[i:stop], "’")
}

// wordAt returns the letters and digits from text[i:].
func (s *scanner) wordAt(i, end int) string {
	start := i
	for i-start <= maxWordBytes && !s.past(i, end) {
		r, n := utf8.DecodeRuneInString(s.text[i:end])
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			break
		}
		i += n
	}
	s.charge(i - start)
	return s.text[start:i]
}

// inWord is the set of ASCII characters that wordBefore accepts.
var inWord = func() (t [utf8.RuneSelf]bool) {
	for c := range t {
		t[c] = wordRune(rune(c)) || c == '.'
	}
	return t
}()

func wordRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || r == '\'' || r == '’' || r == '-'
}

// hasWord reports whether a letter or digit closely precedes the terminator, so
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

// glued decides for a terminator without white space after it.
func (s *scanner) glued(st terminator, end int) bool {
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
	folded := lower(w)
	at := st.after + len(w)
	return folded.in(starters) && (s.past(at, end) || strings.IndexByte(" ,'", s.text[at]) >= 0) && s.longer(st.start)
}

// longer reports whether the word that ends at text[stop:], a letter at least, has
// more than one byte.
func (s *scanner) longer(stop int) bool {
	_, n := utf8.DecodeLastRuneInString(s.text[:stop])
	r, _ := utf8.DecodeLastRuneInString(s.text[:stop-n])
	return n > 1 || unicode.IsLetter(r) || unicode.IsDigit(r) || len(s.wordBefore(0, stop)) > 1
}

// plainWord reports whether the word at text[i:] ends as in prose, not as in a
// part of an address, a query or an expression.
func (s *scanner) plainWord(i, end int) bool {
	w := s.wordAt(i, end)
	i += len(w)
	return len(w) > 1 && (s.past(i, end) || strings.IndexByte(" ,", s.text[i]) >= 0)
}

// reported reports whether the text after a closing quote reports the speech:
// Japanese と and って, Chinese 说, 道, 问 after a pronoun.
func (s *scanner) reported(i, end int) bool {
	rest, complete := s.ahead(i, end, 12)
	if strings.HasPrefix(rest, "と") || strings.HasPrefix(rest, "って") {
		return true
	}
	found := strings.ContainsAny(rest, "说說道问問")
	s.touched = s.touched || !found && !complete
	return found
}

// attached returns the end of the marks that follow a terminator after a space and
// belong to its sentence (references, emoticons, stray closing marks), and the
// index of the first character after the white space there.
func (s *scanner) attached(after, next, end int) (cut, begin int) {
	const maxMarks, maxBytes = 16, 24 // bytes of one mark
	for range maxMarks {
		s.charge(maxBytes)
		n := s.near(next, end, maxBytes, (*scanner).attachedLen)
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

// hasVowel distinguishes a word from an abbreviation that consists of consonants.
func hasVowel(w string) bool {
	for _, r := range w {
		if r >= utf8.RuneSelf || strings.ContainsRune("aeiouyAEIOUY", r) {
			return true
		}
	}
	return false
}
