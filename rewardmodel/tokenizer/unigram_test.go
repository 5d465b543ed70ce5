package tokenizer

import (
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// spmBytes returns the model file of testdata.
func spmBytes(t testing.TB) []byte {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "unigram", spmFile+".gz"))
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	unzip, err := gzip.NewReader(file)
	require.NoError(t, err)
	data, err := io.ReadAll(unzip)
	require.NoError(t, err)
	return data
}

// unigramJSON returns a tokenizer.json of testdata with the character map of
// spm.model inserted and one string replaced.
func unigramJSON(t testing.TB, name, old, new string) string {
	t.Helper()
	m, err := parseSPM(spmBytes(t))
	require.NoError(t, err)
	data, err := os.ReadFile(filepath.Join("testdata", name, tokenizerFile))
	require.NoError(t, err)
	text := strings.Replace(string(data), "CHARSMAP", base64.StdEncoding.EncodeToString(m.charsmap), 1)
	require.Contains(t, text, old)
	return strings.Replace(text, old, new, 1)
}

func loadFiles(t testing.TB, files map[string]string) *Tokenizer {
	t.Helper()
	tok, err := Load(writeFiles(t, files))
	require.NoError(t, err)
	return tok
}

// v5Normalizer is the normalizer that transformers 5 writes for a DeBERTa.
const v5Normalizer = `{"type":"Sequence","normalizers":[{"type":"Replace","pattern":{"Regex":"\\s{2,}|[\\n\\r\\t]"},"content":" "},
{"type":"NFC"},{"type":"Strip","strip_left":false,"strip_right":true}]}`

// member returns the text of a member of a JSON object, up to the member next.
func member(t testing.TB, doc, name, next string) string {
	t.Helper()
	_, after, ok := strings.Cut(doc, `"`+name+`":`)
	require.True(t, ok)
	value, _, ok := strings.Cut(after, `,"`+next+`":`)
	require.True(t, ok)
	return value
}

// TestGoldenUnigram covers each layout of files and each pre-tokenizer.
func TestGoldenUnigram(t *testing.T) {
	model := string(spmBytes(t))
	whole := unigramJSON(t, "unigram_json", "", "")
	normalizer := member(t, whole, "normalizer", "pre_tokenizer")
	v5 := strings.Replace(whole, normalizer, v5Normalizer, 1)
	for golden, files := range map[string]map[string]string{
		"unigram":       {spmFile: model},
		"unigram_lower": {spmFile: model, configFile: `{"do_lower_case":true,"split_by_punct":true}`},
		"unigram_v5":    {tokenizerFile: v5},
		"unigram_bytes": {tokenizerFile: unigramJSON(t, "unigram_bytes", "", "")},
	} {
		t.Run(golden, func(t *testing.T) { checkGolden(t, loadFiles(t, files), golden) })
	}
	t.Run("tokenizer.json", func(t *testing.T) {
		checkGolden(t, loadFiles(t, map[string]string{tokenizerFile: whole}), "unigram")
	})
	for name, doc := range map[string]string{"unigram": whole, "unigram_v5": v5} {
		t.Run(name+"_characters", func(t *testing.T) { checkGolden(t, everyCharacter(t, name, doc), name+"_characters") })
	}
}

// everyCharacter returns a tokenizer with a piece for each character, so that
// nothing is unknown and the offset of every character of every string is checked.
func everyCharacter(t *testing.T, name, doc string) *Tokenizer {
	t.Helper()
	vocab := [][2]any{{"[PAD]", 0}, {"[CLS]", 0}, {"[SEP]", 0}, {"[UNK]", 0}}
	for _, character := range lines[string](t, name+"_known.jsonl.gz") {
		vocab = append(vocab, [2]any{character, -1})
	}
	text, err := json.Marshal(vocab)
	require.NoError(t, err)
	was := member(t, doc, "vocab", "byte_fallback")
	_, added, _ := strings.Cut(doc, `"added_tokens":[`)
	added, _, _ = strings.Cut(added, `],"normalizer"`)
	mask := strings.LastIndex(added, ",{")
	doc = strings.Replace(doc, added[mask:], "", 1) // [MASK] has the id of a character here
	return loadFiles(t, map[string]string{tokenizerFile: strings.Replace(doc, was, string(text), 1)})
}

// TestUnigramSpecialTokens checks the special tokens around a text, and that no text becomes one.
func TestUnigramSpecialTokens(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"spm.model":      {spmFile: string(spmBytes(t)), configFile: `{"do_lower_case":false,"vocab_type":"spm"}`},
		"tokenizer.json": {tokenizerFile: unigramJSON(t, "unigram_json", "", "")},
	} {
		t.Run(name, func(t *testing.T) {
			tok := loadFiles(t, files)
			require.Equal(t, 2001, tok.VocabSize())
			require.Equal(t, "[MASK]", tok.Token(2000))
			require.Equal(t, []int32{1, 7, 2}, tok.Frame([]int32{7}))
			require.Equal(t, 2, tok.Special())
			require.Equal(t, int32(0), tok.PadID())
			for _, text := range []string{"[CLS]", "a [SEP] b", "[PAD][MASK]", "[UNK]"} {
				for _, id := range tok.IDs(text) {
					require.True(t, id > 2 && id < 2000, "%q became %v", text, tok.IDs(text))
				}
			}
			require.Empty(t, tok.IDs("  "))
			require.Equal(t, []byte(" the"), tok.DecodeToken(tok.IDs("the")[0]))
		})
	}
}

func TestUnigramRejects(t *testing.T) {
	edit := func(old, new string) map[string]string {
		return map[string]string{tokenizerFile: unigramJSON(t, "unigram_json", old, new)}
	}
	model := spmBytes(t)
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"vocabulary not a list", map[string]string{tokenizerFile: `{"model":{"type":"Unigram","vocab":{}}}`}, "vocab: want a list"},
		{"token without score", edit(`["[PAD]",0.0]`, `["[PAD]"]`), "token 0: want [token, score]"},
		{"score not a number", edit(`["[PAD]",0.0]`, `["[PAD]","x"]`), "token 0: want [token, score]"},
		{"token twice", edit(`["[PAD]",0.0]`, `["[CLS]",0.0]`), "two ids"},
		{"unknown id outside", edit(`"unk_id":3`, `"unk_id":2000`), "unk_id 2000 is outside"},
		{"no unknown id", edit(`"unk_id":3`, `"unk_id":null`), "unk_id: missing"},
		{"bytes missing", edit(`"byte_fallback":false`, `"byte_fallback":true`), "byte_fallback needs the tokens"},
		{"map not base64", edit(`"precompiled_charsmap":"`, `"precompiled_charsmap":"!`), "precompiled_charsmap"},
		{"map damaged", edit(`"precompiled_charsmap":"`, `"precompiled_charsmap":"////`), "precompiled_charsmap: damaged"},
		{"another pattern", edit(`{"Regex":" {2,}"}`, `{"Regex":" +"}`), `pattern map[Regex: +] is not supported`},
		{"another normalizer", edit(`{"type":"Strip"`, `{"type":"Nmt"`), "Nmt: not supported with Unigram"},
		{"normalizer not a list", edit(`"normalizers":[`, `"normalizers":7,"x":[`), "want a list of normalizers"},
		{"another pre-tokenizer", edit(`{"type":"Metaspace"`, `{"type":"Whitespace"`), "Whitespace is not supported with Unigram"},
		{"another block", edit(`"replacement":"▁"`, `"replacement":"_"`), "replacement _ is not supported"},
		{"another scheme", edit(`"always"`, `"sometimes"`), `prepend_scheme "sometimes"`},
		{"model empty", map[string]string{spmFile: ""}, "not a SentencePiece model"},
		{"model truncated", map[string]string{spmFile: string(model[:len(model)/2])}, "not a SentencePiece model"},
		{"model of text", map[string]string{spmFile: "<!DOCTYPE html>"}, "not a SentencePiece model"},
		{"model of a Git LFS pointer", map[string]string{spmFile: "version https://git-lfs.github.com/spec/v1\n"}, "not a SentencePiece model"},
		{"config flag", map[string]string{spmFile: string(model), configFile: `{"split_by_punct":1}`}, "split_by_punct"},
		{"other names", map[string]string{spmFile: string(model), configFile: `{"cls_token":"<s>"}`}, `cls_token "<s>" is not in the vocabulary`},
	} {
		t.Run(c.name, func(t *testing.T) {
			tok, err := Load(writeFiles(t, c.files))
			require.Nil(t, tok)
			require.ErrorContains(t, err, c.want)
			require.ErrorIs(t, err, ErrFormat)
		})
	}
}

// TestUserDefinedPiece rejects a model with tokens that text can match.
func TestUserDefinedPiece(t *testing.T) {
	piece := append([]byte{pieceText<<3 | 2, 5}, "@USER"...)
	piece = append(piece, pieceType<<3, spmUserDefined)
	_, err := parseSPM(append([]byte{spmPieces<<3 | 2, byte(len(piece))}, piece...))
	require.ErrorContains(t, err, `"@USER" is not special`)
}

func FuzzSPM(f *testing.F) {
	f.Add(spmBytes(f)[:4000])
	f.Add([]byte("\x0a\x0a\x0a\x01a\x15\x00\x00\x80\xbf\x18\x02\x12\x03\xc0\x02\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseSPM(data)
		m.unigram.preTokenizer = metaspace{prefix: true, split: true}
		try(m.parts, err)
	})
}

func FuzzCharsmap(f *testing.F) {
	m, err := parseSPM(spmBytes(f))
	require.NoError(f, err)
	f.Add(m.charsmap[:2000], "ﬁ Å ①\t")
	f.Add([]byte("\x08\x00\x00\x00\x00\x04\x00\x00a\x05\x00\x00b\x00"), "abc")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		c, err := parseCharsmap(data)
		if err != nil {
			return
		}
		valid, _ := repair(text)
		tracked, plain := c.apply(align(valid, true)), c.apply(align(valid, false))
		require.Equal(t, string(plain.text), string(tracked.text))
		require.Len(t, tracked.spans, len(tracked.text))
	})
}

func BenchmarkUnigram(b *testing.B) {
	benchmark(b, loadFiles(b, map[string]string{spmFile: string(spmBytes(b))}), prose())
}

func BenchmarkUnigramUnbroken(b *testing.B) {
	benchmark(b, loadFiles(b, map[string]string{spmFile: string(spmBytes(b))}), strings.Repeat("supercalifragilistic", 1<<20/20))
}
