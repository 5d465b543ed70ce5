package bench

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// words is a tokenizer whose tokens are words.
type words struct{}

func (words) IDs(text string) []int32 { return make([]int32, len(strings.Fields(text))) }
func (words) Special() int            { return 2 }

func response(t *testing.T, text string, maxLength int) Response {
	t.Helper()
	r, err := NewResponse(t.Context(), text, words{}, maxLength)
	require.NoError(t, err)
	return r
}

func TestNewResponse(t *testing.T) {
	r := response(t, "One two three. Four five six seven eight!", 6)
	require.Equal(t, "One two three.", r.Utterances[0])
	require.Equal(t, 5, r.Tokens[0], "with the special tokens")
	require.Len(t, r.Utterances, 3, "the second sentence is longer than four words")
	for _, n := range r.Tokens {
		require.LessOrEqual(t, n, 6)
	}
}

func TestSentences(t *testing.T) {
	texts := []string{"First. Second.", "", "Third. Fourth."}
	for n, want := range map[int][]string{
		1: {"Third."}, 3: {"Third.", "Fourth.", "First."}, 9: {"Third.", "Fourth.", "First.", "Second."},
	} {
		got, err := Sentences(t.Context(), texts, n)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestSample(t *testing.T) {
	var lines strings.Builder
	for _, sentences := range []int{1, 5, 60, 61, 0} {
		lines.WriteString(`{"id":1,"text":"` + strings.Repeat("It works. ", sentences) + `"}` + "\n")
	}
	path := filepath.Join(t.TempDir(), "texts.jsonl.gz")
	file, err := os.Create(path)
	require.NoError(t, err)
	packed := gzip.NewWriter(file)
	_, err = packed.Write([]byte(lines.String()))
	require.NoError(t, err)
	require.NoError(t, packed.Close())
	require.NoError(t, file.Close())

	texts, err := Sample(t.Context(), path, 10, 1)
	require.NoError(t, err)
	require.Len(t, texts, 3, "those of 1 to 60 sentences")
	same, err := Sample(t.Context(), path, 2, 1)
	require.NoError(t, err)
	require.Equal(t, texts[:2], same)

	empty := filepath.Join(t.TempDir(), "empty.jsonl")
	require.NoError(t, os.WriteFile(empty, []byte(`{"text":""}`), 0o600))
	_, err = Sample(t.Context(), empty, 1, 1)
	require.ErrorIs(t, err, ErrNoWork)
	require.ErrorContains(t, err, "empty.jsonl")
}

func TestDigest(t *testing.T) {
	a := []Response{{Utterances: []string{"a", "b"}}}
	require.Equal(t, Digest(a), Digest([]Response{{Utterances: []string{"a", "b"}, Text: "a b"}}))
	require.NotEqual(t, Digest(a), Digest([]Response{{Utterances: []string{"a"}}, {Utterances: []string{"b"}}}))
	require.NotEqual(t, Digest(a), Digest([]Response{{Utterances: []string{"ab"}}}))
}

func TestTotal(t *testing.T) {
	shape := Shape{Hidden: 2, Layers: 3, Intermediate: 5}
	// A layer has 4*2*2 weights of attention and 2*2*5 of the feed-forward part; both matrix multiplications of
	// attention take 2*n*n*2 operations each.
	require.Equal(t, 3*(2*7.0*36+2*2*49*2), shape.FLOP(7))
	total := shape.Total([]Response{{Tokens: []int{7, 1}}, {Tokens: []int{7}, Utterances: []string{"x"}}})
	require.Equal(t, Total{Utterances: 1, Tokens: 15, FLOP: 2*shape.FLOP(7) + shape.FLOP(1)}, total)
}

func TestCases(t *testing.T) {
	work := []Response{response(t, "One. Two.", 9), response(t, "Three.", 9)}
	cases := SpeedCases(work, []int{1, 8}, 512)
	require.Equal(t, []string{"1 x 1", "1 x 8", "bulk 2"}, []string{cases[0].Name, cases[1].Name, cases[2].Name})
	require.Equal(t, 8, cases[1].Concurrency)
	require.Len(t, SpeedCases(work, []int{1}, 0), 1)

	cases, err := GrowthCases(t.Context(), work, 50, Growth{Responses: 100, Sentences: 10, Queue: 4}, words{}, 9)
	require.NoError(t, err)
	var names []string
	for _, c := range cases {
		names = append(names, c.Name)
	}
	require.Equal(t, []string{"responses 1", "responses 10", "responses 100", "sentences 1", "sentences 10", "queue 1", "queue 4"}, names)
	require.Len(t, cases[2].Work, 100)
	require.Equal(t, 50, cases[2].Size)
	require.Len(t, cases[4].Work, 20)
	require.Len(t, cases[4].Work[0].Utterances, 10)
	require.Equal(t, 4, cases[6].Concurrency)
}

func TestUnseen(t *testing.T) {
	const text = "It was long. I liked it! No."
	made := func(pass, most int) string {
		made, err := Unseen(t.Context(), text, pass, most)
		require.NoError(t, err)
		return made
	}
	require.Equal(t, text, made(0, 0))
	require.Equal(t, text, made(0, 9))
	require.Equal(t, "It was long. I liked it!", made(0, 2))
	require.Equal(t, "Take 3 of It was long. Take 3 of I liked it! ", made(3, 2))
	require.Equal(t, "Take 1 of It was long. Take 1 of I liked it! Take 1 of No. ", made(1, 0))
}
