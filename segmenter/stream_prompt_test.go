package segmenter

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// TestStreamPromptness feeds texts byte by byte. The arrows mark where the utterances
// before them are returned: after the character before the arrow.
func TestStreamPromptness(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"prose", `It rained. W→e stayed in. D→id you? Y→es! D→r. Lee left. S→he said "no." T→hen (it rained.) D→one.→`},
		{"lowercase", "i went home. t→hen i slept.→"},
		{"abbreviation", "He works at Foo Inc. They p→ay well.→"},
		{"initial", "Take vitamin C. It h→elps.→"},
		{"number", "See No. 5. I→t is old.→"},
		{"quoted question", `"Why?" she asked. S→he left.→`},
		{"ellipsis", "Well... maybe. H→mm...→"},
		{"reference", "It grew. [3] I→t fell.→"},
		{"reference at a break", "The first experiment of the series has confirmed the old theory. [3]\nBu→t.→"},
		{"emoticon", "Great! :) S→ee you.→"},
		{"inline code", "Run `a. B. c` now. D→one.→"},
		{"bold", "**Is it safe?** Y→es.→"},
		{"address", "See https://a.example/b?c=d.e!f. T→hanks.→"},
		{"paragraphs", "It ended.\n\n→Then more.\n\n→"},
		{"list", "Steps:\n\n→- Mix it. W→ait.\n- B→ake.\n1. S→erve.→"},
		{"heading", "It ended.\n## T→wo words\n\n→Text. M→ore.→"},
		{"heading below", "It ended. S→o far.\n---\nTe→xt.→"},
		{"fence", "Look:\n```go\n→x := 1. Y\n```\nAf→ter.→"},
		{"fence after a blank line", "Look:\n\n→```\nx. Y\n```\n\n→After.→"},
		{"table", "| A | B |\n|---|---|\n| 1→ | 2 |\n| 3→ | 4 |\n\n→After.→"},
		{"quote", "> One. T→wo.\n> Th→ree.\n\n→Four.→"},
		{"math", "Thus\n$$\n→a. B\n$$\nho→lds.→"},
		{"short lines", "Roses are red\nViolets a→re blue\nok→→"},
		{"turns", "Ann: hello there.\nBo→b: hi→"},
		{"lines that end sentences", "Each of these lines is so long that an editor could have wrapped it there.\nBu→t they end in periods, so they need not wait for the others to arrive.\nOk→.→"},
		{"hard wrap", "The editor wrapped this line because the next word was much too long\nfor it. The second sentence, as it happens, also ran over the edge\nof the window.\n\n→→Bye.→"},
		{"chinese", "今天很好。我→们走吧！你→呢？好→→"},
		{"chinese speech", "“走吧。”他说。好→的。→"},
		{"japanese", "「行く。」と言った。は→い→"},
		{"arabic", "هل أنت بخير؟ ن→عم.→"},
		{"hindi", "यह एक वाक्य है। य→ह दूसरा है॥→"},
		{"thai", "ไปไหน? ก→ลับบ้าน→"},
		{"greek", "Τι κάνεις; Κ→αλά.→"},
		{"korean", "비가 왔다. 집→에 있었다.→"},
		{"russian", "Он ушёл. П→очему?→"},
		{"armenian", "Բարեւ։ Լ→ավ է:→"},
		{"amharic", "ሰላም። እ→ንዴት ነህ፧→"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.ReplaceAll(c.text, "→", "")
			var want, got []int
			at := 0
			for i, part := range strings.Split(c.text, "→") {
				if at += len(part); i < strings.Count(c.text, "→") {
					want = append(want, at)
				}
			}
			var s Stream
			for i := range len(text) {
				for range feed(t, &s, text[i:i+1]) {
					got = append(got, i+1)
				}
			}
			rest, err := s.Close(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for range rest {
				got = append(got, len(text))
			}
			if !slices.Equal(got, want) {
				t.Errorf("utterances are returned after %d bytes, want %d: %s", got, want, marked(text, got))
			}
		})
	}
}

// marked returns text with an arrow at each position.
func marked(text string, positions []int) string {
	var b strings.Builder
	from := 0
	for _, at := range positions {
		b.WriteString(text[from:at] + "→")
		from = at
	}
	return b.String() + text[from:]
}

// runeAt returns the character that byte i of text is a part of.
func runeAt(text string, i int) rune {
	r, _ := utf8.DecodeRuneInString(text[runeFloor(text, i):])
	return r
}

func feed(t testing.TB, s *Stream, piece string) []Span {
	t.Helper()
	out, err := s.Feed(context.Background(), piece)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestStreamLookahead checks that no utterance waits for more text than is documented.
func TestStreamLookahead(t *testing.T) {
	const maxLookahead = 8 << 10
	const size = 3 * maxLookahead
	rng := rand.New(rand.NewPCG(2, 9))
	mix := newMixture()
	var texts []string
	for i, a := range costUnits {
		for k, b := range costUnits {
			if (i*len(costUnits)+k)%701 == 0 || !testing.Short() && (i*len(costUnits)+k)%61 == 0 {
				texts = append(texts, "It is the end. "+run(a, size)+run(b, size), run("It is the end.\n"+run(a+b, 900)+"\n", size))
			}
		}
	}
	line := strings.Repeat("word ", 30)
	texts = append(texts, run("It is a|b. "+line+"\n", size), run("It is. And "+line+"\nfor. ", size), "\n\n"+run("    It is. And "+strings.Repeat(line, 10)+"\n", size))
	for range 5 {
		var b strings.Builder
		for b.Len() < size {
			b.WriteString(mix.text(rng))
		}
		texts = append(texts, b.String())
	}
	worst := 0
	for _, text := range texts {
		spans := segment(text)
		var s Stream
		solid := make([]int, 0, len(text)) // of each byte, how many before it are not white space
		count, done := 0, 0
		for i := range len(text) {
			solid = append(solid, count)
			if !unicode.IsSpace(runeAt(text, i)) {
				count++
			}
			if done += len(feed(t, &s, text[i:i+1])); done == len(spans) || spans[done].End > i {
				continue
			}
			span := spans[done]
			ahead := count - solid[span.End]
			worst = max(worst, ahead)
			if ahead > maxLookahead+(span.End-span.Start)/maxRetryCost+1 {
				t.Fatalf("%.60q...: the utterance %v %.60q waits for %d bytes, want at most %d; it ends with %q before %.60q", text, span, text[span.Start:span.End], ahead, maxLookahead, text[max(span.Start, span.End-30):span.End], text[span.End:])
			}
		}
	}
	t.Logf("at most %d bytes", worst)
}
