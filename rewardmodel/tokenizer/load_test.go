package tokenizer

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// writeFiles writes files to a new directory.
func writeFiles(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

// edited returns a tokenizer.json of testdata with the field at path replaced by a
// JSON value.
func edited(t testing.TB, name string, value string, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name, tokenizerFile))
	require.NoError(t, err)
	var doc map[string]any
	require.NoError(t, json.Unmarshal(data, &doc))
	at := doc
	for _, key := range path[:len(path)-1] {
		at = at[key].(map[string]any)
	}
	at[path[len(path)-1]] = json.RawMessage(value)
	data, err = json.Marshal(doc)
	require.NoError(t, err)
	return string(data)
}

func TestLoadRejects(t *testing.T) {
	vocab, err := os.ReadFile("testdata/bpe/vocab.json")
	require.NoError(t, err)
	bpe := func(value string, path ...string) map[string]string {
		return map[string]string{tokenizerFile: edited(t, "bpe_json", value, path...)}
	}
	wordpiece := func(value string, path ...string) map[string]string {
		return map[string]string{tokenizerFile: edited(t, "wordpiece_json", value, path...)}
	}
	words := "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n##b\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"not JSON", map[string]string{tokenizerFile: "{"}, "tokenizer.json"},
		{"more after it", map[string]string{tokenizerFile: "{} {}"}, "after top-level value"},
		{"null", map[string]string{tokenizerFile: "null"}, "model: missing"},
		{"invalid UTF-8", map[string]string{tokenizerFile: "{\"a\":\"\xff\"}"}, "UTF-8"},
		{"another model", bpe(`"WordLevel"`, "model", "type"), `type "WordLevel" is not supported`},
		{"model no object", bpe(`[]`, "model"), "model"},
		{"model type", bpe(`7`, "model", "type"), "type: want a string"},
		{"vocabulary list", bpe(`[]`, "model", "vocab"), "vocab: want an object"},
		{"empty vocabulary", bpe(`{}`, "model", "vocab"), "vocab: want an object"},
		{"id not a number", bpe(`{"a":"b"}`, "model", "vocab"), "a: want a number"},
		{"id null", bpe(`{"a":null}`, "model", "vocab"), "not a nonnegative integer"},
		{"id negative", bpe(`{"a":-1}`, "model", "vocab"), "not a nonnegative integer"},
		{"id a fraction", bpe(`{"a":0.5}`, "model", "vocab"), "not a nonnegative integer"},
		{"id huge", bpe(`{"a":2000000000}`, "model", "vocab"), "outside"},
		{"id twice", bpe(`{"a":3,"b":3}`, "model", "vocab"), "same id 3"},
		{"bytes missing", bpe(`{"<s>":0,"<pad>":1,"</s>":2,"<unk>":3,"<mask>":4}`, "model", "vocab"), "needs all 256"},
		{"merges no list", bpe(`{}`, "model", "merges"), "merges: want a list"},
		{"merge of three", bpe(`["a b c"]`, "model", "merges"), "merge 1"},
		{"merge list of one", bpe(`[["a"]]`, "model", "merges"), "merge 1"},
		{"merge a number", bpe(`[1]`, "model", "merges"), "merge 1"},
		{"merge unknown", bpe(`["a ☃"]`, "model", "merges"), "needs the tokens"},
		{"prefix", bpe(`"##"`, "model", "continuing_subword_prefix"), "continuing_subword_prefix ## is not supported"},
		{"suffix", bpe(`"</w>"`, "model", "end_of_word_suffix"), "end_of_word_suffix </w> is not supported"},
		{"dropout", bpe(`0.1`, "model", "dropout"), "dropout 0.1"},
		{"BPE normalizer", bpe(`{"type":"NFKC"}`, "normalizer"), "normalizer: NFKC is not supported; want NFC"},
		{"BPE added token with spaces", bpe(`[{"id":1000,"content":"@USER","rstrip":true}]`, "added_tokens"), `added_tokens: "@USER" has single_word, lstrip or rstrip`},
		{"no pre-tokenizer", bpe(`null`, "pre_tokenizer"), "want ByteLevel"},
		{"another pre-tokenizer", bpe(`{"type":"Whitespace"}`, "pre_tokenizer"), "pre_tokenizer: Whitespace"},
		{"prefix space", bpe(`true`, "pre_tokenizer", "add_prefix_space"), "add_prefix_space is true"},
		{"no regex", bpe(`false`, "pre_tokenizer", "use_regex"), "use_regex false"},
		{"flag not a flag", bpe(`1`, "pre_tokenizer", "use_regex"), "use_regex: want true or false"},
		{"no post-processor", bpe(`null`, "post_processor"), "post_processor: missing"},
		{"another post-processor", bpe(`{"type":"ByteLevel"}`, "post_processor"), "type ByteLevel is not supported"},
		{"no cls", bpe(`["<s>"]`, "post_processor", "cls"), "cls: want [token, id]"},
		{"sep outside", bpe(`["</s>", 99999]`, "post_processor", "sep"), "outside the vocabulary"},
		{"empty sequence", bpe(`{"type":"Sequence","processors":[]}`, "post_processor"), "Sequence of 0"},
		{"template without text", wordpiece(`[]`, "post_processor", "single"), "no piece for the text"},
		{"template without ids", wordpiece(`{}`, "post_processor", "special_tokens"), `no ids for "[CLS]"`},
		{"template piece", wordpiece(`[1]`, "post_processor", "single"), "piece 1 is not supported"},
		{"added token", wordpiece(`[{"id":2500,"content":"@USER","special":false}]`, "added_tokens"), `"@USER" is not special`},
		{"added token elsewhere", wordpiece(`[{"id":9,"content":"[CLS]","special":true}]`, "added_tokens"), "two ids"},
		{"added token far", wordpiece(`[{"id":4000000000,"content":"[X]","special":true}]`, "added_tokens"), "outside"},
		{"no unknown token", wordpiece(`"[NONE]"`, "model", "unk_token"), `unknown token "[NONE]" is missing`},
		{"another normalizer", wordpiece(`{"type":"Lowercase"}`, "normalizer"), "Lowercase is not supported"},
		{"normalizer flag", wordpiece(`"yes"`, "normalizer", "lowercase"), "lowercase: want true or false"},
		{"WordPiece pre-tokenizer", wordpiece(`{"type":"ByteLevel"}`, "pre_tokenizer"), "want BertPreTokenizer"},
		{"characters", wordpiece(`-3`, "model", "max_input_chars_per_word"), "max_input_chars_per_word"},

		{"vocabulary without merges", map[string]string{vocabFile: string(vocab)}, "merges.txt"},
		{"vocabulary a list", map[string]string{vocabFile: "[]", mergesFile: ""}, "vocab.json"},
		{"vocabulary null", map[string]string{vocabFile: "null", mergesFile: ""}, "not null"},
		{"vocabulary id null", map[string]string{vocabFile: `{"a":null}`, mergesFile: ""}, "id null"},
		{"vocabulary empty", map[string]string{vocabFile: "{}", mergesFile: ""}, "empty"},
		{"vocabulary small", map[string]string{vocabFile: `{"a":0}`, mergesFile: ""}, `cls_token "<s>"`},
		{"merges line", map[string]string{vocabFile: string(vocab), mergesFile: "#version: 0.2\nĠ t\nĠ\n"}, "line 3"},
		{"merges blank", map[string]string{vocabFile: string(vocab), mergesFile: "\n"}, "line 1"},
		{"merges beyond", map[string]string{vocabFile: string(vocab), mergesFile: "Ġ ☃\n"}, "needs the tokens"},
		{"merges binary", map[string]string{vocabFile: string(vocab), mergesFile: "\xff\xfe"}, "UTF-8"},
		{"config damaged", map[string]string{vocabFile: string(vocab), mergesFile: "", configFile: "["}, "tokenizer_config.json"},
		{"config prefix space", map[string]string{vocabFile: string(vocab), mergesFile: "", configFile: `{"add_prefix_space":true}`}, "add_prefix_space is true"},
		{"special list", map[string]string{vocabFile: string(vocab), mergesFile: "", specialsFile: `{"cls_token":[]}`}, "cls_token"},
		{"added plain", map[string]string{vocabFile: string(vocab), mergesFile: "", addedFile: `{"@USER":9000}`}, `"@USER" is not special`},
		{"decoder plain", map[string]string{vocabFile: string(vocab), mergesFile: "", configFile: `{"added_tokens_decoder":{"9000":{"content":"@USER"}}}`}, `"@USER" is not special`},
		{"decoder key", map[string]string{vocabFile: string(vocab), mergesFile: "", configFile: `{"added_tokens_decoder":{"x":{"content":"@USER"}}}`}, `"x" is not a token id`},

		{"words empty", map[string]string{wordsFile: ""}, "empty"},
		{"words twice", map[string]string{wordsFile: words + "a\n"}, "line 7"},
		{"words binary", map[string]string{wordsFile: "\x80\n"}, "UTF-8"},
		{"words without unknown", map[string]string{wordsFile: "[PAD]\n[CLS]\n[SEP]\n"}, `"[UNK]" is missing`},
		{"words without frame", map[string]string{wordsFile: "[UNK]\na\n"}, `cls_token "[CLS]"`},
		{"words flag", map[string]string{wordsFile: words, configFile: `{"do_lower_case":"no"}`}, "do_lower_case"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tok, err := Load(writeFiles(t, c.files))
			require.Nil(t, tok)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "tokenizer: ")
		})
	}
	t.Run("no files", func(t *testing.T) {
		_, err := Load(t.TempDir())
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorContains(t, err, "vocab.txt")
	})
	t.Run("format", func(t *testing.T) {
		_, err := Load(writeFiles(t, map[string]string{wordsFile: ""}))
		require.ErrorIs(t, err, ErrFormat)
	})
}

// TestLoadSettings reads the files next to a vocabulary.
func TestLoadSettings(t *testing.T) {
	words := "<p>\n<u>\n<c>\n<e>\nA\na\n##b\n"
	tok, err := Load(writeFiles(t, map[string]string{
		wordsFile:    words,
		configFile:   `{"do_lower_case": false, "pad_token": "<p>", "added_tokens_decoder": {"7": {"content": "[X]", "special": true}}}`,
		specialsFile: `{"unk_token": "<u>", "cls_token": {"content": "<c>"}, "sep_token": "<e>", "additional_special_tokens": ["[X]"]}`,
		addedFile:    `{"[X]": 7}`,
	}))
	require.NoError(t, err)
	require.Equal(t, []int32{4, 5, 6, 1}, tok.IDs("A ab é"))
	require.Equal(t, []int32{2, 5, 3}, tok.Frame([]int32{5}))
	require.Equal(t, int32(0), tok.PadID())
	require.Equal(t, 8, tok.VocabSize())
	require.Equal(t, "[X]", tok.Token(7))
	require.Equal(t, []byte("b"), tok.DecodeToken(6))
}

// TestSequence reads the special tokens from a list of post-processors, and merges as pairs.
func TestSequence(t *testing.T) {
	frame := `{"type":"Sequence","processors":[{"type":"ByteLevel"},{"type":"TemplateProcessing",
		"single":[{"SpecialToken":{"id":"x","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
		"special_tokens":{"x":{"id":"x","ids":[0,2],"tokens":["<s>","</s>"]}}}]}`
	tok, err := Load(writeFiles(t, map[string]string{tokenizerFile: edited(t, "bpe_json", frame, "post_processor")}))
	require.NoError(t, err)
	require.Equal(t, []int32{0, 2, 9}, tok.Frame([]int32{9}))
	require.Equal(t, 2, tok.Special())

	want := load(t, "bpe_json")
	lists, err := json.Marshal([][2]string{{"Ġ", "t"}, {"h", "e"}})
	require.NoError(t, err)
	tok, err = Load(writeFiles(t, map[string]string{tokenizerFile: edited(t, "bpe_json", string(lists), "model", "merges")}))
	require.NoError(t, err)
	require.Len(t, tok.IDs(" then"), 3)
	require.Equal(t, want.Token(tok.IDs(" then")[0]), "Ġt")
}

// TestIgnoreMerges checks that a word in the vocabulary is one token, whatever the merges are.
func TestIgnoreMerges(t *testing.T) {
	vocab := load(t, "bpe_json")
	p, err := read(filepath.Join("testdata", "bpe_json"), tokenizerFile, func(data []byte) (parts, error) {
		return parseTokenizer(data, &settings{})
	})
	require.NoError(t, err)
	p.ignoreMerges, p.merges = true, []string{}
	tok, err := build(p)
	require.NoError(t, err)
	require.Equal(t, vocab.IDs(" the"), tok.IDs(" the"))
	require.Len(t, tok.IDs(" thx"), 4)
}
