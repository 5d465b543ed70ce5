package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"assay/rewardmodel/tokenizer"
)

// Special tokens of RoBERTa: the first ids, and the last one.
var (
	firstSpecial = []string{"<s>", "<pad>", "</s>", "<unk>"}
	lastSpecial  = "<mask>"
)

// cutTokenizer writes RoBERTa's tokenizer with only its first merges: every text
// still has tokens, and rare words have more of them. Ids are dense and in RoBERTa's
// order, <mask> is the last.
func cutTokenizer(from, to string, merges int) error {
	table, err := os.ReadFile(filepath.Join(from, "merges.txt"))
	if err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	var kept []string
	made := map[string]bool{}
	for line := range strings.Lines(string(table)) {
		line = strings.TrimRight(line, "\r\n")
		left, right, ok := strings.Cut(line, " ")
		if strings.HasPrefix(line, "#version") || !ok {
			continue
		}
		if len(kept) == merges {
			break
		}
		kept = append(kept, line)
		made[left+right] = true
	}
	if len(kept) < merges {
		return fmt.Errorf("%s has %d merges, need %d", filepath.Join(from, "merges.txt"), len(kept), merges)
	}

	data, err := os.ReadFile(filepath.Join(from, "vocab.json"))
	if err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	var ids map[string]int
	if err := json.Unmarshal(data, &ids); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(from, "vocab.json"), err)
	}
	var tokens []string
	for token := range ids {
		// A token of one character represents one byte.
		if made[token] || utf8.RuneCountInString(token) == 1 {
			tokens = append(tokens, token)
		}
	}
	slices.SortFunc(tokens, func(a, b string) int { return cmp.Compare(ids[a], ids[b]) })
	tokens = slices.Concat(firstSpecial, tokens, []string{lastSpecial})
	if want := len(firstSpecial) + 256 + len(made) + 1; len(tokens) != want {
		return fmt.Errorf("%s and merges.txt do not belong together: %d tokens, want %d", from, len(tokens), want)
	}

	var vocab bytes.Buffer
	for id, token := range tokens {
		name, err := json.Marshal(token)
		if err != nil {
			return err
		}
		fmt.Fprintf(&vocab, "%s%s:%d", map[bool]string{true: "{", false: ","}[id == 0], name, id)
	}
	vocab.WriteByte('}')
	if err := mkdirEmpty(to); err != nil {
		return err
	}
	for name, content := range map[string]string{
		"vocab.json": vocab.String(),
		"merges.txt": "#version: 0.2\n" + strings.Join(kept, "\n") + "\n",
		"tokenizer_config.json": `{"tokenizer_class":"RobertaTokenizer","add_prefix_space":false,"trim_offsets":true,` +
			`"model_max_length":512,"bos_token":"<s>","eos_token":"</s>","cls_token":"<s>","sep_token":"</s>",` +
			`"unk_token":"<unk>","pad_token":"<pad>","mask_token":"<mask>"}` + "\n",
		"special_tokens_map.json": `{"bos_token":"<s>","eos_token":"</s>","cls_token":"<s>","sep_token":"</s>",` +
			`"unk_token":"<unk>","pad_token":"<pad>","mask_token":"<mask>"}` + "\n",
	} {
		if err := os.WriteFile(filepath.Join(to, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// blend returns an embedding for each token of bpe, by row: the mean of the
// embeddings of the WordPieces of its text.
func blend(bpe, pieces *tokenizer.Tokenizer, old []float32, width int) ([]float32, error) {
	vocabulary := pieces.Vocab()
	if len(old) != len(vocabulary)*width {
		return nil, fmt.Errorf("the embedding has %d values, want %d times %d", len(old), len(vocabulary), width)
	}
	ids := make(map[string]int32, len(vocabulary))
	for id, piece := range vocabulary {
		ids[piece] = int32(id)
	}
	same := map[string]string{"<s>": "[CLS]", "<pad>": "[PAD]", "</s>": "[SEP]", "<unk>": "[UNK]", "<mask>": "[MASK]"}
	unknown := []int32{ids["[UNK]"]}

	out := make([]float32, bpe.VocabSize()*width)
	for id, token := range bpe.Vocab() {
		var from []int32
		if special, ok := same[token]; ok {
			from = []int32{ids[special]}
		} else if text := bpe.DecodeToken(int32(id)); utf8.Valid(text) {
			from = wordPieces(pieces, ids, string(text))
		}
		if len(from) == 0 {
			from = unknown // part of a character, or white space
		}
		row := out[id*width:][:width]
		for _, piece := range from {
			for i, x := range old[int(piece)*width:][:width] {
				row[i] += x / float32(len(from))
			}
		}
	}
	return out, nil
}

// wordPieces returns the WordPieces of one token's text. A token continues a
// word when it starts with a letter or digit and has no space before it, for
// which WordPiece has the forms with ##; but one that starts like "The" does, with
// a capital and then none, starts a word at the start of a text or after a
// bracket.
func wordPieces(pieces *tokenizer.Tokenizer, ids map[string]int32, text string) []int32 {
	runes := []rune(text)
	run := 0
	for run < len(runes) && (unicode.IsLetter(runes[run]) || unicode.IsDigit(runes[run])) {
		run++
	}
	capital := run > 1 && unicode.IsUpper(runes[0]) && unicode.IsLower(runes[1])
	if run == 0 || capital {
		return pieces.IDs(text)
	}
	inner, ok := continuation(ids, strings.ToLower(string(runes[:run])))
	if !ok {
		return pieces.IDs(text)
	}
	return append(inner, pieces.IDs(string(runes[run:]))...)
}

// continuation splits the rest of a word into ## pieces, the longest first.
func continuation(ids map[string]int32, rest string) ([]int32, bool) {
	var out []int32
	for rest != "" {
		end := len(rest)
		for end > 0 {
			if id, ok := ids["##"+rest[:end]]; ok {
				out = append(out, id)
				break
			}
			end--
		}
		if end == 0 {
			return nil, false
		}
		rest = rest[end:]
	}
	return out, true
}
