package reasoning

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/segmenter"
)

func TestAnswerParts(t *testing.T) {
	tests := []struct{ name, text, want string }{ // parts joined by |
		{"none", "An answer.", "An answer."},
		{"nothing", "", ""},
		{"first", "<think>why</think>An answer.", "An answer."},
		{"empty block", "<think>\n\n</think>\n\nAn answer.", "\n\nAn answer."},
		{"several", "a<think>1</think>b<think>2</think>c", "a|b|c"},
		{"cut off", "An answer.<think>and then", "An answer."},
		{"only reasoning, cut off", "<think>and then", ""},
		{"only reasoning", "<think>and then</think>", ""},
		{"opened by the prompt", "why</think>An answer.", "An answer."},
		{"opened by the prompt, then again", "why</think>a<think>1</think>b", "a|b"},
		{"nested", "<think>a <think>b</think> c</think>An answer.", "An answer."},
		{"quoted while thinking", "<think>I write <think> tags.</think>An answer.", "An answer."},
		{"inline code", "Use `<think>` to think.", "Use `<think>` to think."},
		{"inline code, two ticks", "Use ``a ` <think>`` to think.", "Use ``a ` <think>`` to think."},
		{"inline code, both tags", "Write `<think>x</think>` here.", "Write `<think>x</think>` here."},
		{"a tick that is not closed", "Don`t <think>why</think>answer", "Don`t |answer"},
		{"a tick closed on another line", "a ` b\n<think>why</think>\n` c", "a ` b\n|\n` c"},
		{"fence", "```html\n<think>x</think>\n```\nand", "```html\n<think>x</think>\n```\nand"},
		{"indented fence of tildes", "  ~~~~\n<think>\n~~~\n~~~~~\nand", "  ~~~~\n<think>\n~~~\n~~~~~\nand"},
		{"after a fence", "```\nx\n```\n<think>y</think>z", "```\nx\n```\n|z"},
		{"fence that is not closed", "```\n<think>y</think>z", "```\n|z"},
		{"fence closed in the middle of a line", "```\n<think>y</think>z ```", "```\n|z ```"},
		{"reasoning stops in a fence", "<think>```go\nx</think>An answer.\n```\ny\n```", "An answer.\n```\ny\n```"},
		{"prompt opened, stops in a fence", "so\n```go\nx</think>An answer.", "An answer."},
		{"fence on one line", "```<think>``` and <think>why</think>b", "```<think>``` and |b"},
		{"other case", "<THINK>a</THINK>b", "<THINK>a</THINK>b"},
		{"half a tag", "a <think b </thin c think> d", "a <think b </thin c think> d"},
		{"CRLF fence", "```\r\n<think>x</think>\r\n```\r\nand", "```\r\n<think>x</think>\r\n```\r\nand"},
		{"not UTF-8", "\xff<think>\xfe</think>\xfd", "\xff|\xfd"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var parts []string
			for _, p := range Answer(test.text, false) {
				parts = append(parts, test.text[p.Start:p.End])
			}
			if got := strings.Join(parts, "|"); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// With opened, only what an opening tag precedes is not a part.
func TestAnswerPartsOfOpenedBlocks(t *testing.T) {
	for text, want := range map[string]string{
		"You are bad.</think>":              "You are bad.</think>",
		"why</think>An answer.":             "why</think>An answer.",
		"a</think>b<think>1</think>c":       "a</think>b|c",
		"<think>1</think>b</think>c":        "b</think>c",
		"a\n</think>\n`<think>`\n</think>b": "a\n</think>\n`<think>`\n</think>b",
		"a</think><think>and then":          "a</think>",
		"</think>":                          "</think>",
	} {
		var parts []string
		for _, p := range Answer(text, true) {
			parts = append(parts, text[p.Start:p.End])
		}
		if got := strings.Join(parts, "|"); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// Parts are in order, do not overlap, and have no tag outside of code.
func FuzzAnswerParts(f *testing.F) {
	f.Add("a<think>1</think>b `<think>` ```\n<think>\n```\n</think>c")
	f.Add("~~~\n</think>\n~~~")
	f.Fuzz(func(t *testing.T, text string) {
		end := 0
		for _, p := range Answer(text, false) {
			if p.Start < end || p.End <= p.Start || p.End > len(text) {
				t.Fatalf("%q: part %v after %d", text, p, end)
			}
			end = p.End
			part := text[p.Start:p.End]
			if !strings.ContainsAny(part, "`~") && (strings.Contains(part, thinkOpen) || strings.Contains(part, thinkClose)) {
				t.Errorf("%q: part %q holds a tag", text, part)
			}
		}
	})
}

// The search for closing marks is not quadratic in hostile text.
func TestAnswerPartsIsLinear(t *testing.T) {
	if testing.Short() {
		t.Skip("reads megabytes")
	}
	const size = 1 << 20
	var fences, ticks strings.Builder
	for n := 3; fences.Len() < size; n++ {
		fences.WriteString(strings.Repeat("`", 3+n%40) + "x\n" + strings.Repeat("~", 3+n%40) + "x\n")
		ticks.WriteString(strings.Repeat("`", 1+n%2000) + " ")
	}
	for name, text := range map[string]string{
		"fences": fences.String(), "ticks": ticks.String(),
		"blocks":  strings.Repeat("<think></think>", size/15),
		"closing": strings.Repeat("</think>", size/8),
		"quoted":  strings.Repeat("`<think>`\n", size/10),
		"halves":  strings.Repeat("think>", size/6),
	} {
		start := time.Now()
		Answer(text+"\n<think>end", false)
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("%s: %d bytes took %v", name, len(text), took)
		}
	}
}

// streamedParts is Answer for a text that arrives in pieces.
func streamedParts(t *testing.T, text string, opened bool, next func() int) (parts []segmenter.Span) {
	t.Helper()
	f := Filter{opened: opened}
	open, end := false, 0
	for at := 0; ; {
		cut := min(len(text), at+next())
		final := cut == len(text)
		for _, p := range f.Feed(text[:cut], final) {
			if p.Start < end || p.End > cut {
				t.Fatalf("%q: piece %+v after %d of %d", text, p, end, cut)
			}
			end = p.End
			switch {
			case p.Void && open:
				parts, open = parts[:len(parts)-1], false
			case p.Start == p.End:
			case open:
				parts[len(parts)-1].End = p.End
			default:
				parts, open = append(parts, p.Span), true
			}
			open = open && !p.Ends
		}
		if at = cut; final {
			return parts
		}
	}
}

func checkStreamedParts(t *testing.T, text string, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	for _, opened := range []bool{false, true} {
		want := Answer(text, opened)
		for _, most := range []int{1, 3, 20, 200} {
			got := streamedParts(t, text, opened, func() int { return 1 + random.IntN(most) })
			if !slices.Equal(got, want) {
				t.Fatalf("%q in pieces of up to %d bytes, opened %v: got %v, want %v", text, most, opened, got, want)
			}
		}
	}
}

func TestStreamedAnswerParts(t *testing.T) {
	words := []string{"<think>", "</think>", "`", "``", "```", "~~~", "\n", "\n\n", "   ", " ", "a", "b.", "```go\n", "<", "</", "think>", "<thi", "`````````", "\n```\n", "\n~~~~\n", "\r\n"}
	random := rand.New(rand.NewPCG(5, 6))
	for n := range 40000 {
		var b strings.Builder
		for range 1 + random.IntN(16) {
			b.WriteString(words[random.IntN(len(words))])
		}
		checkStreamedParts(t, b.String(), uint64(n))
	}
}

func FuzzStreamedAnswerParts(f *testing.F) {
	f.Add("a<think>1</think>b `<think>` ```\n<think>\n```\n</think>c", uint64(1))
	f.Add("~~~\n</think>\n~~~", uint64(2))
	f.Fuzz(checkStreamedParts)
}

// Text is held back only from a tag that may be in code.
func TestAnswerPartsAreReturnedEarly(t *testing.T) {
	for text, want := range map[string]string{
		"An answer <":                      "An answer ",
		"An answer </thin":                 "An answer ",
		"An answer <thing":                 "An answer <thing",
		"Don`t say ``":                     "Don`t say ``",
		"Don`t <think>why":                 "Don`t ",
		"A `<think>` tag and":              "A `<think>` tag and",
		"```go\nx := 1\n":                  "```go\nx := 1\n",
		"```\n<think>\nx":                  "```\n",
		"```\n<think>\n```\nx":             "```\n<think>\n```\nx",
		"Don`t <think>why</think>\nanswer": "Don`t |\nanswer",
		"a<think>b":                        "a",
	} {
		var f Filter
		var parts []string
		for _, p := range f.Feed(text, false) {
			parts = append(parts, text[p.Start:p.End])
		}
		if got := strings.Join(parts, "|"); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// A text that arrives byte by byte takes linear time.
func TestStreamedAnswerPartsIsLinear(t *testing.T) {
	if testing.Short() {
		t.Skip("reads megabytes")
	}
	const size = 1 << 18
	for name, text := range map[string]string{
		"one line":      strings.Repeat("a ", size/2),
		"ticks":         strings.Repeat("`", size),
		"open tick":     "` <think>" + strings.Repeat("``a", size/3),
		"open fence":    "```\n<think>" + strings.Repeat("a\n", size/2),
		"long fence":    "```\n<think>" + strings.Repeat("a", size),
		"tags":          strings.Repeat("<think></think>", size/15),
		"quoted":        strings.Repeat("`<think>`", size/9),
		"in reasoning":  "<think>" + strings.Repeat("</thin", size/6),
		"partial":       strings.Repeat("<thin", size/5),
		"spaces":        strings.Repeat(" ", size),
		"tildes":        strings.Repeat("~", size),
		"ticks, tildes": strings.Repeat("~`", size/2),
	} {
		start := time.Now()
		streamedParts(t, text, false, func() int { return 1 })
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("%s: %d bytes took %v", name, len(text), took)
		}
	}
}
