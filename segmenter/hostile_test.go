package segmenter

import (
	"strings"
	"testing"
)

// hostile units are repeated to megabytes.
var hostile = []struct{ name, unit string }{
	{"dots", "."},
	{"spaced dots", ". "},
	{"letter dot", "a."},
	{"initials", "A. "},
	{"stops", "?! "},
	{"ellipses", "… "},
	{"quotes", `"`},
	{"stop quote", `."`},
	{"stop brackets", ".)"},
	{"open brackets", "(["},
	{"references", ". [1]"},
	{"open references", ".["},
	{"newlines", "\n"},
	{"short lines", "a\n"},
	{"line feeds and spaces", " \n"},
	{"pipes", "|"},
	{"pipe lines", "|\n"},
	{"delimiter rows", "a|b\n-|-\n"},
	{"backticks", "`"},
	{"code", "`a"},
	{"fences", "```\n"},
	{"tildes and ticks", "~~~\n````\n"},
	{"math", "$$\n"},
	{"quoted", "> "},
	{"quote lines", ">\n"},
	{"lists", "- "},
	{"list lines", "- a\n"},
	{"numbers", "1. "},
	{"rulings", "--- "},
	{"ruling lines", "a\n---\n"},
	{"stars", "*"},
	{"indented", "    a\n\n"},
	{"indented code", "    a=1;\n\n"},
	{"addresses", "://"},
	{"address words", "http://a "},
	{"fields", "A: 1 "},
	{"mail fields", "From: a@b "},
	{"times", "1/1/00 10:00:00 "},
	{"colons", ":"},
	{"emoticons", ". :) "},
	{"emoji", ". 🎉 "},
	{"joined emoji", ".🎉\u200d"},
	{"combining", "a\u0301\u0301"},
	{"invalid", "\xff"},
	{"continuation bytes", ".\x80"},
	{"cut runes", "\xe3\x80"},
	{"cjk stops", "。」"},
	{"dandas", "।"},
	{"wide spaces", ".\u3000"},
	{"no-break spaces", "\u00a0"},
	{"sign-offs", "Thanks, A. "},
	{"dashes", "a — A "},
	{"letters", "a"},
	{"long words", "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz. "},
	{"turns", "A: b\n"},
	{"carriage returns", ".\r"},
	{"nul", "\x00"},
}

// TestHostile would not end within the time of a test run if any rule looked
// around without bound.
func TestHostile(t *testing.T) {
	size := 10 << 20
	if testing.Short() {
		size = 1 << 20
	}
	for _, c := range hostile {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Repeat(c.unit, size/len(c.unit))
			spans := Segment(text)
			if len(text) > 0 && strings.TrimSpace(text) != "" && len(spans) == 0 {
				t.Fatal("no spans")
			}
			checkOrder(t, text, spans)
		})
	}
}

// TestUnclosed feeds what opens and never closes, before ordinary text.
func TestUnclosed(t *testing.T) {
	for _, open := range []string{"```\n", "~~~go\n", "$$\n", `\[` + "\n", "> ", "(", "[", `"`, "“", "`", "**", "<", "|", "- "} {
		text := open + strings.Repeat("It was late. He left early.\n", 1<<20/28)
		checkCover(t, text, Segment(text))
	}
}
