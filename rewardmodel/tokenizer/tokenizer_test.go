package tokenizer

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"assay/segmenter"
	"github.com/stretchr/testify/require"
)

func Example() {
	t, err := Load("testdata/bpe")
	if err != nil {
		fmt.Println(err)
		return
	}
	text := "Don't panic, </s> is plain text."
	e := t.Encode(text)
	for i, id := range e.IDs[:3] {
		fmt.Printf("%q is %q\n", t.Token(id), text[e.Offsets[i].Start:e.Offsets[i].End])
	}
	ids := t.Frame(e.IDs)
	fmt.Println(t.Token(ids[0]), t.Token(ids[len(ids)-1]))
	// Output:
	// "D" is "D"
	// "on" is "on"
	// "'t" is "'t"
	// <s> </s>
}

func TestOffsets(t *testing.T) {
	tok := load(t, "bpe")
	for _, c := range []struct {
		text string
		want []segmenter.Span
	}{
		{"", []segmenter.Span{}},
		{" the", []segmenter.Span{{Start: 1, End: 4}}},
		{"  ", []segmenter.Span{{Start: 2, End: 2}}},
		{"\x80", []segmenter.Span{{Start: 0, End: 1}}},
	} {
		e := tok.Encode(c.text)
		require.NotNil(t, e.IDs)
		require.Equal(t, c.want[len(c.want)-min(1, len(c.want)):], e.Offsets[len(e.Offsets)-min(1, len(c.want)):], "%q", c.text)
	}
	// Each token of a part of a character has the span of the whole character.
	for _, s := range tok.Encode("\U0001FAE8").Offsets {
		require.Equal(t, segmenter.Span{Start: 0, End: 4}, s)
	}
	// Spans are of the original text: they exclude marks that were removed at the end.
	require.Equal(t, []segmenter.Span{{Start: 1, End: 2}}, load(t, "wordpiece").Encode("\xffI\u0301").Offsets)
}

func TestAccessors(t *testing.T) {
	bpe, wordpiece := load(t, "bpe"), load(t, "wordpiece")
	require.Equal(t, []int32{0, 9, 2}, bpe.Frame([]int32{9}))
	require.Equal(t, []int32{2, 9, 3}, wordpiece.Frame([]int32{9}))
	require.Equal(t, 2, bpe.Special())
	require.Equal(t, int32(1), bpe.PadID())
	require.Equal(t, int32(0), wordpiece.PadID())
	require.Len(t, bpe.Vocab(), bpe.VocabSize())
	require.Equal(t, "", bpe.Token(-1))
	require.Nil(t, bpe.DecodeToken(int32(bpe.VocabSize())))
	require.Equal(t, " the", string(bpe.DecodeToken(bpe.IDs(" the")[0])))
	require.Equal(t, "<mask>", string(bpe.DecodeToken(4)))

	modern := load(t, "modernbert")
	frame := modern.Frame(nil)
	require.Equal(t, []string{"[CLS]", "[SEP]", "[PAD]"}, []string{modern.Token(frame[0]), modern.Token(frame[1]), modern.Token(modern.PadID())})
	spaces := modern.IDs("x    ")
	require.Equal(t, "    ", string(modern.DecodeToken(spaces[len(spaces)-1])))
}

// TestDecode concatenates the bytes of all tokens.
func TestDecode(t *testing.T) {
	tok := load(t, "bpe")
	for _, text := range goldenStrings(t) {
		var b strings.Builder
		for _, id := range tok.IDs(text) {
			b.Write(tok.DecodeToken(id))
		}
		want, _ := repair(text)
		require.Equal(t, string(want), b.String())
	}
}

// TestTruncatedVocabulary uses only the first merges, which are also a valid model.
func TestTruncatedVocabulary(t *testing.T) {
	full := load(t, "bpe")
	trained, err := readByteLevel(filepath.Join("testdata", "bpe"))
	require.NoError(t, err)
	require.Len(t, trained.merges, full.VocabSize()-256-5)
	merges := trained.merges[:100]
	var vocab []string
	for id, token := range full.Vocab()[:5+256+100] {
		vocab = append(vocab, fmt.Sprintf("%q:%d", token, id))
	}
	tok, err := Load(writeFiles(t, map[string]string{
		vocabFile:  strings.ReplaceAll("{"+strings.Join(vocab, ",")+"}", `\x`, `\u00`),
		mergesFile: "#version: 0.2\n" + strings.Join(merges, "\n") + "\n",
	}))
	require.NoError(t, err)
	require.Equal(t, 361, tok.VocabSize())
	require.Greater(t, len(tok.IDs("uncharacteristically")), len(full.IDs("uncharacteristically")))
}

// TestConcurrent encodes the same texts in many goroutines with one cache.
func TestConcurrent(t *testing.T) {
	for _, name := range []string{"bpe", "wordpiece"} {
		tok, texts := load(t, name), goldenStrings(t)[:600]
		want := make([]Encoding, len(texts))
		for i, text := range texts {
			want[i] = tok.Encode(text)
		}
		var wait sync.WaitGroup
		for g := range 4 {
			wait.Go(func() {
				for i := range texts {
					i = (i*7 + g*len(texts)/4) % len(texts)
					got, ids := tok.Encode(texts[i]), tok.IDs(texts[i])
					if !slices.Equal(got.IDs, want[i].IDs) || !slices.Equal(got.Offsets, want[i].Offsets) || !slices.Equal(ids, got.IDs) {
						t.Errorf("%q: %v, not %v", texts[i], got, want[i])
					}
				}
			})
		}
		wait.Wait()
	}
}

// TestCacheBound checks that the cache does not grow with the number of words encoded.
func TestCacheBound(t *testing.T) {
	tok := load(t, "bpe")
	for i := range 300_000 {
		tok.IDs(fmt.Sprintf("word%dx", i))
	}
	cache := tok.model.(*byteLevel).cache
	require.Len(t, cache.slots, cacheSlots)
	size := 0
	for i := range cache.slots {
		if w := cache.slots[i].Load(); w != nil {
			require.LessOrEqual(t, len(w.word), maxCachedWord)
			require.LessOrEqual(t, len(w.ids), maxCachedWord)
			size += len(w.word) + 4*cap(w.ids)
		}
	}
	require.Less(t, size, cacheSlots*5*maxCachedWord)
}

// TestMergesAgree compares the two merge algorithms on words that both support, also
// with merges in another order than training finds them, so that a merge can
// create a pair of lower rank.
func TestMergesAgree(t *testing.T) {
	trained, err := readByteLevel(filepath.Join("testdata", "bpe"))
	require.NoError(t, err)
	shuffled := trained
	shuffled.merges = slices.Clone(trained.merges)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(shuffled.merges), func(i, j int) {
		shuffled.merges[i], shuffled.merges[j] = shuffled.merges[j], shuffled.merges[i]
	})
	for _, p := range []parts{trained, shuffled} {
		tok, err := build(p)
		require.NoError(t, err)
		b := tok.model.(*byteLevel)
		for _, text := range goldenStrings(t) {
			word := []byte(text[:min(len(text), shortWord)])
			require.Equal(t, b.mergeShort(nil, word), b.mergeLong(nil, nil, word), "%q", word)
		}
	}
}

func TestParseClassesRejects(t *testing.T) {
	for _, line := range []string{"letter", "nothing 1-2", "letter x-2", "letter 1-x", "letter 2-1", "letter 1-110000", "letter 1-2/0", "lower 1-2 x"} {
		_, err := parseClasses(line)
		require.ErrorContains(t, err, "character table", line)
	}
}

// TestTooLarge checks that an oversized file is rejected without reading it.
func TestTooLarge(t *testing.T) {
	dir := t.TempDir()
	file, err := os.Create(filepath.Join(dir, wordsFile))
	require.NoError(t, err)
	require.NoError(t, file.Truncate(maxFile+1))
	require.NoError(t, file.Close())
	_, err = Load(dir)
	require.ErrorIs(t, err, ErrFormat)
}
