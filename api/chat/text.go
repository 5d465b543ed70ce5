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
	// A prompt that was too long has lost its beginning.
	if n := overlap(query, prompt); n >= longestHeader {
		return n, true
	}
	return 0, false
}

// SearchBytes is how many bytes Turns takes to find prompt in query, at most.
func SearchBytes(query, prompt string) int64 { return 8 * int64(min(len(query), len(prompt))) }

// overlap is the length of the longest suffix of prompt that query begins with
// (Knuth, Morris and Pratt's failure function, in linear time).
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
// tokens: behind the assistant's first header, when one of the user's stands
// before it.
func plainStart(text string) int {
	user := firstPlain(text, plainUser)
	if user.End == 0 {
		return 0
	}
	return user.End + firstPlain(text[user.End:], plainAssistant).End
}

// skipPlain steps over the header of the assistant that may follow a prompt as
// the user wrote it.
func skipPlain(text string, from int) int {
	rest := strings.TrimLeft(text[from:], " \t\r\n")
	for _, mark := range plainAssistant {
		if strings.HasPrefix(rest, mark) {
			return len(text) - len(rest) + len(mark)
		}
	}
	return from
}

// firstPlain finds the first of some headers of a plain template. Its End is 0
// when there is none.
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

// trimmed is [start,end) of text without the white space and special tokens at
// its ends.
func trimmed(text string, start, end int) segmenter.Span {
	for start < end {
		// No step looks at more than it takes off, so that a text of nothing but
		// special tokens costs no more than any other.
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

// longestSpecial bounds a token of the form <|...|>, in bytes.
const longestSpecial = 64

// brackets enclose the special tokens of most models.
var brackets = [][2]string{{"<|", "|>"}, {"<｜", "｜>"}}

// specialPrefix is the length of the special token that text begins with, or 0.
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
		i := strings.Index(inner[:min(len(inner), longestSpecial)], b[1])
		if i > 0 && isName(inner[:i]) {
			return len(b[0]) + i + len(b[1])
		}
	}
	return 0
}

// specialSuffix is the length of the special token that text ends with, or 0.
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
		near := max(0, len(inner)-longestSpecial)
		i := strings.LastIndex(inner[near:], b[0])
		if i >= 0 && near+i+len(b[0]) < len(inner) && isName(inner[near+i+len(b[0]):]) {
			return len(text) - near - i
		}
	}
	return 0
}

// isName tells whether the inside of a special token is one: letters, digits and
// few other characters, no space.
func isName(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || strings.ContainsRune("<>|｜\"'", r)
	})
}
