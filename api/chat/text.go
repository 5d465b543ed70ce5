package chat

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"assay/segmenter"
)

// locate returns where prompt ends in query.
func locate(query, prompt string) (cut int, found bool) {
	prompt = strings.TrimLeft(prompt, " \t\r\n")
	if prompt == "" {
		return 0, false
	}
	if i := strings.Index(query, prompt); i >= 0 {
		return i + len(prompt), true
	}
	// The start of an over-long prompt was cut off.
	if n := overlap(query, prompt); n >= maxHeader {
		return n, true
	}
	return 0, false
}

// SearchBytes returns the maximum memory in bytes that Turns needs to find prompt in
// query.
func SearchBytes(query, prompt string) int64 { return 8 * int64(min(len(query), len(prompt))) }

// overlap returns the length of the longest suffix of prompt that is a prefix of
// query (failure function of Knuth, Morris and Pratt, in linear time).
func overlap(query, prompt string) int {
	query = query[:min(len(query), len(prompt))]
	fail := make([]int, len(query)+1)
	for i, k := 1, 0; i < len(query); i++ {
		for k > 0 && query[i] != query[k] {
			k = fail[k]
		}
		if query[i] == query[k] {
			k++
		}
		fail[i+1] = k
	}
	k := 0
	for i := range len(prompt) {
		for k > 0 && (k == len(query) || query[k] != prompt[i]) {
			k = fail[k]
		}
		if k < len(query) && query[k] == prompt[i] {
			k++
		}
	}
	return k
}

// plainStart returns where the answer begins in a conversation without special
// tokens: after the first header of the assistant that follows one of the user.
func plainStart(text string) int {
	user := firstPlain(text, plainUser)
	if user.End == 0 {
		return 0
	}
	return user.End + firstPlain(text[user.End:], plainAssistant).End
}

// skipPlain skips the header of the assistant that may follow a prompt without
// template.
func skipPlain(text string, from int) int {
	rest := strings.TrimLeft(text[from:], " \t\r\n")
	for _, mark := range plainAssistant {
		if strings.HasPrefix(rest, mark) {
			return len(text) - len(rest) + len(mark)
		}
	}
	return from
}

// firstPlain returns the first of the headers marks of a plain template. Its End is 0
// if there is none.
func firstPlain(text string, marks []string) segmenter.Span {
	var first segmenter.Span
	for _, mark := range marks {
		for at := 0; ; {
			i := strings.Index(text[at:], mark)
			if i < 0 {
				break
			}
			start := at + i
			at = start + len(mark)
			if start > 0 && !strings.ContainsRune(" \n", rune(text[start-1])) {
				continue
			}
			if first.End == 0 || start < first.Start {
				first = segmenter.Span{Start: start, End: at}
			}
			break
		}
	}
	return first
}

// trimmed returns [start,end) of text without leading and trailing white space and
// special tokens.
func trimmed(text string, start, end int) segmenter.Span {
	for start < end {
		// No step reads more than it removes, so that a text of special tokens only
		// costs no more than any other.
		inner := strings.TrimLeftFunc(text[start:end], unicode.IsSpace)
		start = end - len(inner)
		inner = strings.TrimRightFunc(inner, unicode.IsSpace)
		end = start + len(inner)
		n := specialPrefix(inner)
		m := specialSuffix(inner[n:])
		if n+m == 0 {
			break
		}
		start, end = start+n, end-m
	}
	return segmenter.Span{Start: start, End: end}
}

// maxSpecial is the maximum length of a token of the form <|...|> in bytes.
const maxSpecial = 64

// brackets enclose the special tokens of most models.
var brackets = [][2]string{{"<|", "|>"}, {"<｜", "｜>"}}

// specialPrefix returns the length of the special token at the start of text, or 0.
func specialPrefix(text string) int {
	for _, token := range specials {
		if strings.HasPrefix(text, token) {
			return len(token)
		}
	}
	for _, b := range brackets {
		inner, ok := strings.CutPrefix(text, b[0])
		if !ok {
			continue
		}
		i := strings.Index(inner[:min(len(inner), maxSpecial)], b[1])
		if i > 0 && isName(inner[:i]) {
			return len(b[0]) + i + len(b[1])
		}
	}
	return 0
}

// specialSuffix returns the length of the special token at the end of text, or 0.
func specialSuffix(text string) int {
	for _, token := range specials {
		if strings.HasSuffix(text, token) {
			return len(token)
		}
	}
	for _, b := range brackets {
		inner, ok := strings.CutSuffix(text, b[1])
		if !ok {
			continue
		}
		near := max(0, len(inner)-maxSpecial)
		i := strings.LastIndex(inner[near:], b[0])
		if i >= 0 && near+i+len(b[0]) < len(inner) && isName(inner[near+i+len(b[0]):]) {
			return len(text) - near - i
		}
	}
	return 0
}

// isName reports whether s can be the name of a special token: letters, digits and
// few other characters, no space.
func isName(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || strings.ContainsRune("<>|｜\"'", r)
	})
}
