package spelling

import (
	"strings"
	"unicode/utf8"

	"github.com/forPelevin/gomoji"
	"github.com/rivo/uniseg"
)

// maxDescribed is the maximum number of emoji of a text that are described, so that the result is at most 64 KiB longer.
const maxDescribed = 512

// DescribeEmoji replaces each emoji, with its skin tone or as a sequence (a flag, a family), by its short name in the
// Unicode Common Locale Data Repository, set apart by spaces: a vocabulary of words has few emoji, and reads all of a
// word that has an unknown one as unknown. A run of the same emoji is described once, and squared letters, keycaps and
// other characters in the style of emoji become plain ones, as in "b1️⃣tch". Characters that are mainly punctuation, such
// as arrows, © and bullets, remain, and so do emoji beyond the first 512. Offsets in the result say nothing about the
// text.
func DescribeEmoji(text string) string {
	if ascii(text) {
		return text
	}
	var b strings.Builder
	described, before := 0, ""
	spaced := func() bool { return b.Len() == 0 || b.String()[b.Len()-1] == ' ' }
	write := func(part string) {
		if spaced() {
			part = strings.TrimPrefix(part, " ")
		}
		b.WriteString(part)
	}
	copied, state := 0, -1
	for rest := text; rest != ""; {
		var cluster string
		cluster, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		at := len(text) - len(rest) - len(cluster)
		name := ""
		if described < maxDescribed {
			name = emojiName(cluster)
		}
		if name == "" {
			before = ""
			continue
		}
		write(text[copied:at])
		copied = at + len(cluster)
		if utf8.RuneCountInString(name) == 1 { // a character, which may be a part of a word
			b.WriteString(name)
			before = ""
			continue
		}
		if cluster == before {
			continue
		}
		if !spaced() {
			b.WriteByte(' ')
		}
		b.WriteString(name + " ")
		described, before = described+1, cluster
	}
	if copied == 0 {
		return text
	}
	write(text[copied:])
	return strings.TrimSuffix(b.String(), " ")
}

// emojiName returns the name of an emoji, the character of one that shows a character, or "" for anything else.
func emojiName(cluster string) string {
	first, size := utf8.DecodeRuneInString(cluster)
	switch style := cluster[size:]; {
	case style != "" && strings.Trim(style, "\ufe0f\u20e3") == "" && (first < utf8.RuneSelf || styled(first)):
		return string(first)
	case first < 0x2300 || first >= 0x25a0 && first < 0x2600 || styled(first):
		return ""
	case boxed(first) != first:
		return string(boxed(first))
	}
	emoji, err := gomoji.GetInfo(strings.TrimRight(cluster, "\u200d"))
	if err != nil {
		return ""
	}
	_, name, _ := strings.Cut(emoji.UnicodeName, " ") // "E0.6 kitchen knife": since version 0.6
	return name
}
