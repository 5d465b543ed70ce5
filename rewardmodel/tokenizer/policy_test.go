package tokenizer

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/segmenter"
)

// policies are the variants of testdata/policy.json, each as a tokenizer.json.
func policies(t testing.TB) map[string]map[string]any {
	t.Helper()
	data, err := os.ReadFile("testdata/policy.json")
	require.NoError(t, err)
	var file struct {
		Model    map[string]any
		Variants map[string]map[string]any
	}
	require.NoError(t, json.Unmarshal(data, &file))
	for _, v := range file.Variants {
		v["model"] = maps.Clone(file.Model)
		v["model"].(map[string]any)["ignore_merges"] = v["ignore_merges"]
	}
	return file.Variants
}

// policyDir writes a tokenizer.json and returns its directory.
func policyDir(t testing.TB, doc map[string]any) string {
	t.Helper()
	data, err := json.Marshal(doc)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, tokenizerFile), data, 0o600))
	return dir
}

func TestPolicyGolden(t *testing.T) {
	all := policies(t)
	require.Len(t, all, 7)
	texts := lines[string](t, "policy_strings.jsonl.gz")
	for name, doc := range all {
		t.Run(name, func(t *testing.T) {
			p, err := LoadPolicy(policyDir(t, doc))
			require.NoError(t, err)
			require.Nil(t, p.other)
			want := lines[[2][]int](t, "policy_"+name+".jsonl.gz")
			require.Len(t, want, len(texts))
			wrong := 0
			for i, line := range texts {
				text := make([]byte, 0, len(line))
				for _, r := range line {
					text = append(text, byte(r))
				}
				e := p.Encode(string(text))
				spans := make([]segmenter.Span, len(want[i][0]))
				ids := make([]int32, len(spans))
				for k := range spans {
					ids[k] = int32(want[i][0][k])
					spans[k] = segmenter.Span{Start: want[i][1][2*k], End: want[i][1][2*k+1]}
				}
				got := codePoints(string(text), e.Offsets)
				if !slices.Equal(ids, e.IDs) || !slices.Equal(spans, got) {
					t.Errorf("string %d %q:\nids  %v\nwant %v\noffsets %v\nwant    %v", i, text, e.IDs, ids, got, spans)
					if wrong++; wrong == 5 {
						t.FailNow()
					}
				}
			}
		})
	}
}

// The tokenizers that Load reads are also policy tokenizers.
func TestPolicyOfAnotherKind(t *testing.T) {
	for _, name := range []string{"bpe", "bpe_json", "wordpiece_json", "unigram_bytes"} {
		p, err := LoadPolicy(filepath.Join("testdata", name))
		require.NoError(t, err, name)
		const text = "It isn't naïve."
		require.Equal(t, load(t, name).Encode(text), p.Encode(text), name)
	}
	_, err := LoadPolicy(t.TempDir())
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestPolicyRejects(t *testing.T) {
	byteLevel := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}
	split := func(pattern, behavior string) any {
		return map[string]any{"type": "Sequence", "pretokenizers": []any{
			map[string]any{"type": "Split", "pattern": map[string]any{"Regex": pattern}, "behavior": behavior, "invert": false}, byteLevel,
		}}
	}
	added := func(flag string) any {
		return []any{map[string]any{"id": 7, "content": "<x>", flag: true}}
	}
	for want, change := range map[string]map[string]any{
		"normalizer: NFKC is not supported":                   {"normalizer": map[string]any{"type": "NFKC"}},
		"pre_tokenizer: Metaspace is misplaced":               {"pre_tokenizer": map[string]any{"type": "Metaspace"}},
		"pre_tokenizer: missing":                              {"pre_tokenizer": nil},
		"add_prefix_space is true":                            {"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": true}},
		`behavior "MergedWithNext" of Split is not supported`: {"pre_tokenizer": split(`\s`, "MergedWithNext")},
		`"(?<=a)b" is not supported`:                          {"pre_tokenizer": split(`(?<=a)b`, "Isolated")},
		`"(?i)a" is not supported`:                            {"pre_tokenizer": split(`(?i)a`, "Isolated")},
		`"\\w+" is not supported`:                             {"pre_tokenizer": split(`\w+`, "Isolated")},
		`"\\p{Greek}" is not supported`:                       {"pre_tokenizer": split(`\p{Greek}`, "Isolated")},
		`"$" is not supported`:                                {"pre_tokenizer": split(`\s+$`, "Isolated")},
		`"[:alpha:]]" is not supported`:                       {"pre_tokenizer": split(`[[:alpha:]]`, "Isolated")},
		"an unbounded or possessive group":                    {"pre_tokenizer": split(`(?:ab)+`, "Isolated")},
		"a parenthesis is not closed":                         {"pre_tokenizer": split(`(a`, "Isolated")},
		"a bracket is not closed":                             {"pre_tokenizer": split(`[a`, "Isolated")},
		`")" is not supported`:                                {"pre_tokenizer": split(`a)b`, "Isolated")},
		"post_processor: Other is not supported":              {"post_processor": map[string]any{"type": "Other"}},
		`added_tokens: "<x>" has single_word, lstrip`:         {"added_tokens": added("lstrip")},
		"Sequence is not supported with WordPiece":            {"model": map[string]any{"type": "WordPiece", "vocab": map[string]any{"a": 0}}},
		"a byte-level vocabulary needs all 256":               {"model": map[string]any{"type": "BPE", "vocab": map[string]any{"a": 0}, "merges": []any{}}},
	} {
		doc := policies(t)["qwen"]
		maps.Copy(doc, change)
		_, err := LoadPolicy(policyDir(t, doc))
		require.ErrorIs(t, err, ErrFormat, want)
		require.Contains(t, err.Error(), want)
		require.Contains(t, err.Error(), tokenizerFile)
	}
}

// FuzzPolicy checks that there is one span per token, within the text.
func FuzzPolicy(f *testing.F) {
	var loaded []*Policy
	for _, name := range []string{"qwen", "digits", "symbols"} {
		p, err := LoadPolicy(policyDir(f, policies(f)[name]))
		require.NoError(f, err)
		loaded = append(loaded, p)
	}
	f.Add("It's <think>naïve</think>  cafe\u0301! 12345\r\n\xff")
	f.Fuzz(func(t *testing.T, text string) {
		for _, p := range loaded {
			e := p.Encode(text)
			require.Len(t, e.Offsets, len(e.IDs))
			for _, s := range e.Offsets {
				require.True(t, 0 <= s.Start && s.Start <= s.End && s.End <= len(text))
			}
		}
	})
}

func BenchmarkPolicy(b *testing.B) {
	text := strings.Repeat("The quick brown fox didn't expect 3,500 dogs; «naïve» 你好，世界！\n\n", 2000)
	for _, name := range []string{"qwen", "llama", "cased"} {
		p, err := LoadPolicy(policyDir(b, policies(b)[name]))
		require.NoError(b, err)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				p.Encode(text)
			}
		})
	}
}
