package segmenter

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The rules of this file find the ends of utterances without a terminator in
// unwrapped text. Mail, news and pasted text have often lost their line breaks,
// but separator lines, time stamps, header fields, addresses and sign-offs still
// indicate where they were.

// layout examines the mark text[i], which is not a terminator. It returns the ends
// of up to two utterances, 0 for none, and the index at which to continue.
func (s *scanner) layout(from, start, i, end int) (before, after, next int) {
	switch s.text[i] {
	case ':', ';':
	case '<':
		return s.tag(i, end)
	default:
		return s.inlineRuling(from, i, end)
	}
	switch {
	case s.hasPrefix(i, end, "://"):
		return s.url(from, i, end)
	case i > from && isDigit(s.text[i-1]) && !s.past(i+1, end) && isDigit(s.text[i+1]):
		return s.timeStamp(from, i, end)
	case i > from && s.text[i-1] == ' ':
		if n := s.near(i, end, 8, (*scanner).emoticon); n > 0 && s.capitalizedAfter(i+n, end) {
			return 0, i + n, i + n
		}
	case s.text[i] == ':' && !s.past(i+1, end) && s.text[i+1] == ' ':
		return s.field(from, start, i, end)
	}
	return 0, 0, i + 1
}

// blockTags are the HTML elements that start and end a separate line.
var blockTags = set(`p br li ul ol div tr table blockquote hr h1 h2 h3 h4 h5 h6`)

// tag splits before an opening tag of a block and after a closing one.
func (s *scanner) tag(i, end int) (before, after, next int) {
	name := i + 1
	closing := !s.past(name, end) && s.text[name] == '/'
	if closing {
		name++
	}
	w := s.wordAt(name, end)
	folded := lower(w)
	at := name + len(w)
	if !folded.in(blockTags) || s.past(at, end) || strings.IndexByte("> /", s.text[at]) < 0 {
		return 0, 0, i + 1
	}
	if !closing && w != "br" && w != "hr" {
		return i, 0, at
	}
	rest, complete := s.ahead(at, end, 4)
	if n := strings.IndexByte(rest, '>'); n >= 0 {
		s.past(at+n+1, end) // an utterance that ends at the end of what is known depends on what follows
		return 0, at + n + 1, at + n + 1
	}
	s.touched = s.touched || !complete
	return 0, 0, at
}

// inlineRuling splits around "*****" and similar marks between spaces.
func (s *scanner) inlineRuling(from, i, end int) (before, after, next int) {
	j := i
	for j-i < maxLine && !s.past(j, end) && s.text[j] == s.text[i] {
		j++
	}
	s.charge(j - i)
	if j-i == 2 && s.text[i] == '-' && i == s.firstOf(from, end) && s.capitalizedAfter(j, end) {
		return 0, j, j // the signature separator of RFC 3676
	}
	minLength := 4
	if s.text[i] == '*' {
		minLength = 3
	}
	if j-i < minLength || j-i == maxLine || i > from && s.text[i-1] != ' ' || j < end && s.text[j] != ' ' {
		return 0, 0, j
	}
	return i, j, j
}

// unfinished are words that no utterance ends with, unless it is interrupted.
var unfinished = set(`a an the my your his her our their uh um er like and but or so because if when that
	to of in on at for with from is was are were be i'm you're he's she's it's we're they're who's that's
	i you he she we they maybe just not very`)

// brokenOff splits after the dash at text[i:next] of interrupted speech: "I was —
// Oh, never mind."
func (s *scanner) brokenOff(from, i, next, end int) int {
	if i-2 < from || s.text[i-1] != ' ' || !s.capitalizedAfter(next, end) {
		return 0
	}
	folded := lower(strings.ReplaceAll(s.wordBefore(from, i-1), "’", "'"))
	if folded.in(unfinished) {
		return next
	}
	return 0
}

// url skips the URL whose "://" is at text[i:]. It ends an utterance before another
// URL or a word that starts sentences.
func (s *scanner) url(from, i, end int) (before, after, next int) {
	j := i
	for !s.past(j, end) && s.text[j] > ' ' && s.text[j] < utf8.RuneSelf && strings.IndexByte("\"<>`", s.text[j]) < 0 {
		j++
	}
	s.charge(j - i)
	for j > i+3 && strings.IndexByte(".,;:!?)]*_'", s.text[j-1]) >= 0 {
		j--
	}
	if j == end || s.text[j] != ' ' {
		return 0, 0, j
	}
	if s.hasPrefix(j+1, end, "http://") || s.hasPrefix(j+1, end, "https://") || s.startsSentence(s.rightOf(s.skipSpace(j, end), end)) {
		return 0, j, j
	}
	return 0, 0, j
}

// stampPrepositions precede a time that belongs to its sentence.
var stampPrepositions = set(`on at of from by since until till to and before after dated between`)

// timeStamp splits around the date and time of a mail header, "3/14/2005 9:26 PM",
// whose first colon is at text[i].
func (s *scanner) timeStamp(from, i, end int) (before, after, next int) {
	j := i + 3
	if s.past(i+2, end) || !isDigit(s.text[i+2]) {
		return 0, 0, i + 1
	}
	seconds := s.hasPrefix(j, end, ":") && s.digitAt(j+1, end) && s.digitAt(j+2, end)
	if seconds {
		j += 3
	}
	half := s.hasPrefix(j, end, " AM") || s.hasPrefix(j, end, " PM")
	if half {
		j += 3
	}
	if !seconds && !half || !s.past(j, end) && s.text[j] != ' ' {
		return 0, 0, i + 1
	}
	date := i
	for slashes := 0; date > from && i-date < len("12/31/1999 12"); date-- {
		c := s.text[date-1]
		if c == '/' {
			slashes++
		}
		if !isDigit(c) && c != '/' && !(c == ' ' && slashes == 0) {
			break
		}
	}
	for s.text[date] == ' ' {
		date++
	}
	if strings.Count(s.text[date:i], "/") != 2 {
		return 0, 0, i + 1
	}
	if s.capitalizedAfter(j, end) || s.lowercaseAfter(j, end) && half {
		after = j
	}
	if date > from+1 {
		folded := lower(s.wordBefore(from, date-1))
		if !folded.in(stampPrepositions) && s.text[date-1] == ' ' && s.text[date-2] != ',' {
			before = date
		} else if !s.capitalizedAfter(j, end) {
			after = 0
		}
	}
	return before, after, j
}

// addressFields are header fields that contain only an address.
var addressFields = set(`email e-mail from to cc`)

// field splits a line of header fields. text[i] is the colon of a label, which ends
// the preceding field when its value is a number or an address. A field for an
// address ends after the address.
func (s *scanner) field(from, start, i, end int) (before, after, next int) {
	label := s.wordBefore(from, i)
	if !startsUpper(label) {
		return 0, 0, i + 1
	}
	at := i - len(label)
	if at == start {
		folded := lower(label)
		if !folded.in(addressFields) {
			return 0, 0, i + 1
		}
		const longest = 120 // bytes of a display name and an address
		rest, complete := s.ahead(i, end, longest)
		s.charge(len(rest))
		n := max(0, strings.IndexByte(rest, '@'))
		n2 := strings.IndexByte(rest[n:], ' ')
		switch {
		case n > 0 && n2 >= 0:
			if s.capitalizedAfter(i+n+n2, end) {
				return 0, i + n + n2, i + n + n2
			}
		case !complete:
			s.touched = true
		}
		return 0, 0, i + 1
	}
	if at-2 <= from || s.text[at-1] != ' ' {
		return 0, 0, i + 1
	}
	s.charge(2 * maxWordBytes)
	open, _, ok := strings.Cut(s.text[from:min(at, from+maxWordBytes)], ": ")
	last := rune(s.text[at-2])
	if ok && startsUpper(open) && strings.Count(open, " ") < 3 && (isDigit(s.text[at-2]) || strings.ContainsRune(")>", last) || s.address(from, at-1)) {
		return at, 0, i + 1
	}
	return 0, 0, i + 1
}

// address reports whether the word that ends at text[end:] contains an "@".
func (s *scanner) address(from, end int) bool {
	word := s.text[max(from, end-maxWordBytes):end]
	return strings.Contains(word[strings.LastIndexByte(word, ' ')+1:], "@")
}

// signOffs are the last words of a sign-off.
var signOffs = set(`regards sincerely respectfully cordially thanks cheers`)

// signOff returns the end of a sign-off, "Kind regards,", at the start of
// text[from:end] when a name follows, else 0.
func (s *scanner) signOff(from, end int) int {
	const longest = 24 // bytes
	at := s.firstOf(from, end)
	s.charge(longest)
	near, complete := s.ahead(at, end, longest)
	words, rest, ok := strings.Cut(near, ",")
	if !ok || rest == "" {
		s.touched = s.touched || s.open && !complete && maySignOff(words)
		return 0
	}
	folded := lower(words[strings.LastIndexByte(words, ' ')+1:])
	if !folded.in(signOffs) || !maySignOff(words) {
		return 0
	}
	at += len(words) + 1
	name := s.skipSpace(at, end)
	const longestName = 40 // bytes
	if end-name > longestName || !s.capitalizedAfter(at, end) || strings.ContainsAny(s.text[name:end], ".!?,") {
		return 0
	}
	for w := range strings.FieldsSeq(s.text[name:end]) {
		if !startsUpper(w) {
			return 0
		}
	}
	s.touched = true // the name must be the rest of the block
	return at
}

// maySignOff reports whether words start a sign-off: one or two words of ASCII.
func maySignOff(words string) bool {
	for i := range len(words) {
		if words[i] >= utf8.RuneSelf || strings.IndexByte(".!?:;", words[i]) >= 0 {
			return false
		}
	}
	first, second, ok := strings.Cut(words, " ")
	folded := lower(second)
	return first != "" && (!ok || folded.beginsIn(signOffs))
}

// digitAt reports whether text[i] is a digit.
func (s *scanner) digitAt(i, end int) bool { return !s.past(i, end) && isDigit(s.text[i]) }

// capitalizedAfter reports whether text[i:] starts with white space and a
// capitalized word; a word in all capitals may be a time zone or a unit.
func (s *scanner) capitalizedAfter(i, end int) bool {
	next := s.skipSpace(i, end)
	if next == i || next == end {
		return false
	}
	r := s.rightOf(next, end)
	if !unicode.IsUpper(r.first) {
		return false
	}
	w := s.wordAt(r.word, end)
	return len(w) == 1 || w != strings.ToUpper(w)
}

// lowercaseAfter reports whether text[i:] starts with white space and a lowercase
// letter.
func (s *scanner) lowercaseAfter(i, end int) bool {
	next := s.skipSpace(i, end)
	r, _ := utf8.DecodeRuneInString(s.text[next:end])
	return next > i && unicode.IsLower(r)
}
