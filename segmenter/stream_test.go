package segmenter

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"assay/internal/ctxtest"
)

// streamed feeds the pieces of text between cuts, which are in order, to a stream.
func streamed(t testing.TB, text string, cuts []int) []Span {
	t.Helper()
	var s Stream
	var out []Span
	add := func(got []Span, err error) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, got...)
	}
	from := 0
	for _, cut := range append(cuts, len(text)) {
		add(s.Feed(context.Background(), text[from:cut]))
		from = cut
	}
	add(s.Close(context.Background()))
	return out
}

// checkStream fails unless a stream of text cut at cuts returns what Segment returns.
func checkStream(t testing.TB, text string, cuts []int) {
	t.Helper()
	want, got := segment(text), streamed(t, text, cuts)
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(want):
			t.Fatalf("%q cut at %v: there is a further utterance %d %v %q", text, cuts, i, got[i], text[got[i].Start:got[i].End])
		case i >= len(got):
			t.Fatalf("%q cut at %v: utterance %d %q is missing", text, cuts, i, text[want[i].Start:want[i].End])
		case got[i] != want[i]:
			t.Fatalf("%q cut at %v: utterance %d is %v %q, want %v %q", text, cuts, i, got[i], text[got[i].Start:got[i].End], want[i], text[want[i].Start:want[i].End])
		}
	}
}

// everyByte returns the cuts of text into single bytes.
func everyByte(text string) []int {
	cuts := make([]int, len(text))
	for i := range cuts {
		cuts[i] = i
	}
	return cuts
}

// randomCuts cuts text into pieces that have the same size on average.
func randomCuts(rng *rand.Rand, text string) (cuts []int) {
	step := 1 + rng.IntN(1<<rng.IntN(7))
	for at := rng.IntN(step); at < len(text); at += 1 + rng.IntN(step) {
		cuts = append(cuts, at)
	}
	return cuts
}

func TestStreamOfBytes(t *testing.T) {
	for _, c := range cases {
		text := strings.ReplaceAll(c.text, "¦", "")
		checkStream(t, text, everyByte(text))
		text = strings.Repeat(text+"\n\n", 1+2000/len(text))
		checkStream(t, text, everyByte(text))
	}
	for _, text := range append(seeds, answer, answer+answer) {
		checkStream(t, text, everyByte(text))
	}
}

// TestStreamCut cuts texts once, everywhere. At a line break that may be a wrap, what is
// decided for the joined lines must be true for separate lines.
func TestStreamCut(t *testing.T) {
	for _, text := range []string{
		"The page has a long first paragraph that ends with this tag</p>\n*** The rest",
		"The page has a long first paragraph that ends with this tag</p >\n*** The rest",
		strings.Repeat("word ", 220) + "</p>\n---\n",
		"> " + strings.Repeat("word ", 220) + "</p>\n>\n",
		"The first experiment of the series confirmed the old theory. [3. 4]\n\"Good,\" she said.",
		"To: Hello there! My friends are coming today at home@example \n\"Foo is here.",
		"To: Hello there! My friends are coming today at home@example\nFoo is here.",
	} {
		t.Run(text[max(0, len(text)-32):], func(t *testing.T) {
			checkStream(t, text, everyByte(text))
			for cut := range len(text) + 1 {
				checkStream(t, text, []int{cut})
			}
		})
	}
}

// TestStreamCuts cuts random texts at random: mixtures of units from texts in many
// scripts, Markdown, chats, code, mail and hostile texts. STREAM_CUTS sets how many.
func TestStreamCuts(t *testing.T) {
	rounds := 200_000
	if testing.Short() {
		rounds = 4_000
	}
	if given, err := strconv.Atoi(os.Getenv("STREAM_CUTS")); err == nil {
		rounds = given
	}
	rng := rand.New(rand.NewPCG(3, 5))
	mix := newMixture()
	total := 0
	for range rounds {
		text := mix.text(rng)
		checkStream(t, text, randomCuts(rng, text))
		total += len(text)
	}
	t.Logf("%d texts of %d bytes", rounds, total)
}

// mixture generates random texts.
type mixture struct{ units, words, lines []string }

func newMixture() mixture {
	var m mixture
	m.units = append(m.units, costUnits...)
	for _, c := range hostile {
		m.units = append(m.units, c.unit)
	}
	texts := append([]string{answer, "<think>\nShe asks. Hm.\n</think>\n\nYes. No.", "<think>a. B</think>C. D"}, seeds...)
	for _, c := range cases {
		texts = append(texts, strings.ReplaceAll(c.text, "¦", ""))
	}
	for _, text := range texts {
		m.words = append(m.words, strings.SplitAfter(text, " ")...)
		m.lines = append(m.lines, strings.SplitAfter(text, "\n")...)
	}
	m.lines = append(m.lines, texts...)
	return m
}

func (m mixture) text(rng *rand.Rand) string {
	var b strings.Builder
	pick := func(from []string) { b.WriteString(from[rng.IntN(len(from))]) }
	switch rng.IntN(4) {
	case 0:
		for range 1 + rng.IntN(30) {
			pick(m.units)
		}
	case 1:
		for range 1 + rng.IntN(12) {
			pick(m.lines)
			pick([]string{"", "\n", " ", "\n\n", "\n> "})
		}
	case 2:
		for range 1 + rng.IntN(40) {
			pick([][]string{m.units, m.words, m.words, m.lines}[rng.IntN(4)])
		}
	default:
		m.paragraph(&b, rng)
	}
	return b.String()
}

// paragraph writes lines of similar width, as an editor wraps them.
func (m mixture) paragraph(b *strings.Builder, rng *rand.Rand) {
	width, ragged := 30+rng.IntN(140), 1+rng.IntN(30)
	prefix := []string{"", "", "> ", "  "}[rng.IntN(4)]
	words := []string{"the ", "word ", "is ", "it. ", "ends. ", "It ", "The ", "House! ", "e.g. ", "Dr. ", "so? ", "\"Yes.\" ", "a|b ", "x: ", "Ann: ", "Thanks, ", "...", "— ", "</p>", "</p> ", "[3. 4]", "[3. 4] ", "*** ", "To: x! Y a@b", "To: x! Y a@b "}
	for range 1 + rng.IntN(25) {
		b.WriteString(prefix)
		start := b.Len()
		for to := width - rng.IntN(ragged); b.Len()-start < to; {
			if rng.IntN(12) == 0 {
				b.WriteString(strings.ReplaceAll(m.words[rng.IntN(len(m.words))], "\n", " "))
				continue
			}
			b.WriteString(words[rng.IntN(len(words))])
		}
		b.WriteString([]string{"\n", "\n", "\n", "\n", "\n", "\n", " \n", "  \n", "\\\n", "\r\n", ":\n", "\n\n", "\n---\n", "\n-|-\n", "\n>\n", "\n    "}[rng.IntN(16)])
	}
}

// FuzzStream cuts a text at positions given by the distances between them.
func FuzzStream(f *testing.F) {
	for i, text := range append(seeds, answer) {
		f.Add(text, []byte{byte(i), 1, 3})
	}
	f.Fuzz(func(t *testing.T, text string, distances []byte) {
		if len(distances) == 0 {
			distances = []byte{0}
		}
		var cuts []int
		for i, at := 0, 0; at < len(text); i++ {
			cuts = append(cuts, at)
			at += 1 + int(distances[i%len(distances)])
		}
		checkStream(t, text, cuts)
	})
}

func TestStreamCanceled(t *testing.T) {
	var s Stream
	if _, err := s.Feed(t.Context(), "Hi. You"); err != nil {
		t.Fatal(err)
	}
	ctx := &ctxtest.Countdown{Context: t.Context()}
	if got, err := s.Feed(ctx, " there. And"); !errors.Is(err, context.Canceled) || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
}
