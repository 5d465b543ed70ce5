package segmenter

import (
	"strings"
	"testing"
)

// hostile has units that are repeated to megabytes.
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
	{"tags", "<p>"},
	{"words and tags", "<aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
	{"speech", `a "b! `},
	{"dashes", "a — A "},
	{"letters", "a"},
	{"long words", "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz. "},
	{"turns", "A: b\n"},
	{"carriage returns", ".\r"},
	{"nul", "\x00"},
}

// TestHostile would time out if any rule inspected its surroundings without a limit.
func TestHostile(t *testing.T) {
	for _, c := range hostile {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Repeat(c.unit, 1<<20/len(c.unit))
			checkOrder(t, text, segment(text))
		})
	}
}

// TestTenMegabytes is TestHostile at the size of the largest responses.
func TestTenMegabytes(t *testing.T) {
	if testing.Short() {
		t.Skip("large texts are left out of a short run")
	}
	for _, unit := range []string{".", `"`, "([", "\n", "|", "`", "a.", "a. ", "It was late. "} {
		for _, open := range []string{"", "```\n"} {
			text := open + strings.Repeat(unit, 10<<20/len(unit))
			checkOrder(t, text, segment(text))
		}
	}
}

// TestUnclosed segments unclosed marks before ordinary text.
func TestUnclosed(t *testing.T) {
	for _, open := range []string{"```\n", "~~~go\n", "$$\n", `\[` + "\n", "> ", "(", "[", `"`, "“", "`", "**", "<", "|", "- "} {
		text := open + strings.Repeat("It was late. He left early.\n", 1<<17/28)
		checkCover(t, text, segment(text))
	}
}
