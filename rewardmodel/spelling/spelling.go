// Package spelling undoes spellings that hide a word from a classifier: letters of other alphabets that look like Latin
// ones, letters in other styles (full width, mathematical, circled), invisible characters, letters set apart
// ("i d i o t", "k.i.l.l"), and digits for letters ("k1ll"). Text in other scripts, numbers, hashes and names such as MP3
// or H1N1 remain as they are.
package spelling

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxPasses bounds the passes of Normalize, each of which takes linear time.
const maxPasses = 8

// Normalize returns the text as it reads to a person. It is idempotent, takes linear time, and returns most texts
// unchanged, without copying them. The result is not longer than three times the text; offsets in it say nothing about
// the text.
func Normalize(text string) string {
	for range maxPasses {
		next := text
		if !ascii(next) {
			next = latin(visible(next))
		}
		next = letters(join(next))
		if next == text {
			break
		}
		text = next // whose letters for digits may make it mostly Latin, once
	}
	return text
}

func ascii(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func digit(c byte) bool { return c >= '0' && c <= '9' }

// visible removes invisible characters between letters and marks that strike letters through, and replaces letters in
// other styles by plain ones (NFKC).
func visible(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return invisible(r) || overlay(r) || blank(r) || styled(r) || boxed(r) != r }) < 0 {
		return text
	}
	var b strings.Builder
	runes := []rune(text)
	for i, r := range runes {
		switch {
		case overlay(r), invisible(r) && i > 0 && i < len(runes)-1 && joins(runes[i-1]) && joins(runes[i+1]):
		case blank(r):
			b.WriteByte(' ')
		case styled(r):
			b.WriteString(norm.NFKC.String(string(r)))
		default:
			b.WriteRune(boxed(r))
		}
	}
	return b.String()
}

// overlay reports marks that strike a letter through.
func overlay(r rune) bool { return r >= 0x334 && r <= 0x338 }

// invisible reports characters without a width. The joiner of emoji sequences is one only among letters.
func invisible(r rune) bool {
	switch r {
	case 0xad, 0x34f, 0x61c, 0x180e, 0xfeff:
		return true
	}
	return r >= 0x200b && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2060 && r <= 0x2069
}

// blank reports characters that look like a space and are none to a tokenizer: fillers of Hangul, braille without dots.
func blank(r rune) bool {
	return r == 0x115f || r == 0x1160 || r == 0x2800 || r == 0x3164 || r == 0xffa0
}

// joins reports characters among which an invisible one hides a word: Latin letters, those that look like them, digits,
// and invisible characters. In other scripts, joiners are part of the spelling.
func joins(r rune) bool {
	return r < utf8.RuneSelf && digit(byte(r)) || unicode.Is(unicode.Latin, r) || invisible(r) || plain(r) != r
}

// styled reports letters in another style, which NFKC replaces: full width, mathematical, circled, squared, raised.
func styled(r rune) bool {
	return r >= 0xff21 && r <= 0xff5a || r >= 0x1d400 && r <= 0x1d7ff || r >= 0x24b6 && r <= 0x24e9 ||
		r >= 0x249c && r <= 0x24b5 || r >= 0x1f110 && r <= 0x1f149 || r >= 0x2100 && r <= 0x214f && unicode.IsLetter(r) || r >= 0x1d2c && r <= 0x1d6a
}

// boxed maps white letters on a black circle or square, which NFKC does not replace, to plain ones, and others to themselves.
func boxed(r rune) rune {
	switch {
	case r >= 0x1f150 && r <= 0x1f169:
		return 'A' + r - 0x1f150
	case r >= 0x1f170 && r <= 0x1f189:
		return 'A' + r - 0x1f170
	}
	return r
}

// lookalikes are Cyrillic, Greek and other letters, each followed by the Latin letter that it looks like.
const lookalikes = "аaеeкkоoрpсcуyхxіiїiјjѕsһhԁdԛqԝwѵvӏlАAВBЕEКKМMНHОOРPСCТTУYХXІIЇIЈJЅS" +
	"αaοoνvρpιiκkυuχxγyΑAΒBΕEΖZΗHΙIΚKΜMΝNΟOΡPΤTΥYΧXıiɑaɡgɩiʏyոnսuօoցg" +
	"ᴀaʙbᴄcᴅdᴇeꜰfɢgʜhɪiᴊjᴋkʟlᴍmɴnᴏoᴘpʀrꜱsᴛtᴜuᴠvᴡwᴢz" // small capitals

// plain maps a letter to the Latin letter that it looks like, and others to themselves.
func plain(r rune) rune {
	if r < utf8.RuneSelf {
		return r
	}
	if at := strings.IndexRune(lookalikes, r); at >= 0 {
		return rune(lookalikes[at+utf8.RuneLen(r)])
	}
	return r
}

// latin replaces letters of other alphabets in words that have Latin letters as well, and then, in a text that is mostly
// Latin, in words that have nothing but lookalikes.
func latin(text string) string {
	if _, others := alphabets(text); others > 0 {
		text = eachWord(text, func(word string) bool { return strings.IndexFunc(word, latinLetter) >= 0 })
	}
	if ours, others := alphabets(text); others > 0 && ours > others {
		text = eachWord(text, func(word string) bool {
			return strings.IndexFunc(word, func(r rune) bool { return plain(r) == r }) < 0
		})
	}
	return text
}

func latinLetter(r rune) bool { return r < utf8.RuneSelf && letter(byte(r)) }

// alphabets counts the letters of ASCII and of other alphabets than Latin.
func alphabets(text string) (ours, others int) {
	for _, r := range text {
		switch {
		case latinLetter(r):
			ours++
		case r >= utf8.RuneSelf && unicode.IsLetter(r) && (!unicode.Is(unicode.Latin, r) || plain(r) != r):
			others++
		}
	}
	return ours, others
}

// eachWord replaces lookalikes in the words that are chosen.
func eachWord(text string, chosen func(word string) bool) string {
	var b strings.Builder
	for len(text) > 0 {
		end := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if end < 0 {
			end = len(text)
		}
		if word := text[:end]; end > 0 && chosen(word) {
			b.WriteString(strings.Map(plain, word))
		} else {
			b.WriteString(word)
		}
		text = text[end:]
		_, size := utf8.DecodeRuneInString(text)
		b.WriteString(text[:size])
		text = text[size:]
	}
	return b.String()
}

// The numbers of single letters in a row that are joined: fewer are initials, more are more than a word.
const (
	apart   = 3
	longest = 40
)

// run returns the end of the single letters at i that are set apart by one and the same separator, and their number.
func run(text string, i int) (end, n int) {
	if !letter(text[i]) || i > 0 && within(text[i-1]) {
		return i, 0
	}
	end, n = i+1, 1
	for end+1 < len(text) && separator(text[end]) && (n == 1 || text[end] == text[i+1]) && letter(text[end+1]) &&
		(end+2 == len(text) || !within(text[end+2])) {
		end, n = end+2, n+1
	}
	return end, n
}

// within reports characters that make a letter next to them part of a word.
func within(c byte) bool { return letter(c) || digit(c) || c == '\'' || c >= utf8.RuneSelf }

func separator(c byte) bool { return strings.IndexByte(" .-_*|/~", c) >= 0 }

// join joins letters that are set apart.
func join(text string) string {
	var out []byte
	copied := 0
	for i := 0; i < len(text); {
		switch {
		case !letter(text[i]):
			i++
		case i+1 < len(text) && within(text[i+1]): // a word
			for i < len(text) && within(text[i]) {
				i++
			}
		default:
			end, n := run(text, i)
			switch {
			case n > longest, n == apart && strings.ToUpper(text[i:end]) == text[i:end]: // notes, vitamins, initials
			case n >= apart:
				out = append(out, text[copied:i]...)
				for k := range n {
					out = append(out, text[i+2*k])
				}
				copied = end
			default:
				end-- // the last letter may begin a run with another separator
			}
			i = max(end, i+1)
		}
	}
	if copied == 0 {
		return text
	}
	return string(append(out, text[copied:]...))
}

// digitLetters are digits, each followed by the letter that it stands for.
const digitLetters = "0o1i3e4a5s7t"

// word returns the end of the word at i, and whether all its digits stand for letters: there is one between letters, and
// no other digit. Those of hexadecimal numbers, and of names in capitals that end with a digit, do not.
func word(text string, i int) (end int, hidden bool) {
	known, begun, lower, hex, digits := true, false, false, true, 0 // begun: there is a letter before
	for end = i; end < len(text) && (letter(text[end]) || digit(text[end])); end++ {
		c := text[end]
		if letter(c) {
			begun, lower, hex = true, lower || c >= 'a', hex && c|0x20 <= 'f'
			continue
		}
		digits++
		known = known && strings.IndexByte(digitLetters, c) >= 0
		hidden = hidden || begun && end+1 < len(text) && letter(text[end+1])
	}
	name := hex && digits > 1 || !lower && end > i && digit(text[end-1])
	return end, hidden && known && !name
}

// letters replaces digits that stand for letters.
func letters(text string) string {
	var out []byte
	for i := 0; i < len(text); {
		end, hidden := word(text, i)
		if hidden && out == nil {
			out = []byte(text)
		}
		for k := i; hidden && k < end; k++ {
			if digit(text[k]) {
				out[k] = digitLetters[strings.IndexByte(digitLetters, text[k])+1]
			}
		}
		i = max(end, i+1)
	}
	if out == nil {
		return text
	}
	return string(out)
}
