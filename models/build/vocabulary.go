package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/text/unicode/runenames"

	"assay/rewardmodel/tokenizer"
)

// emoji are the ranges of characters, both ends inclusive, that MiniLM's vocabulary lacks and insults, threats and
// approval are made of: faces, people, hands, hearts, animals, some food, weapons and signs.
var emoji = [][2]rune{
	{0x2620, 0x2620}, {0x2639, 0x263A}, {0x26A0, 0x26A0}, {0x2705, 0x2705}, {0x270A, 0x270C}, {0x2728, 0x2728}, {0x274C, 0x274C},
	{0x2764, 0x2764}, {0x1F308, 0x1F308}, {0x1F346, 0x1F346}, {0x1F34C, 0x1F34C}, {0x1F351, 0x1F351}, {0x1F37A, 0x1F37A},
	{0x1F389, 0x1F389}, {0x1F3F3, 0x1F3F3}, {0x1F3FB, 0x1F3FF}, {0x1F400, 0x1F487}, {0x1F48A, 0x1F4B0}, {0x1F525, 0x1F525},
	{0x1F52A, 0x1F52B}, {0x1F590, 0x1F590}, {0x1F595, 0x1F596}, {0x1F5D1, 0x1F5D1}, {0x1F5E1, 0x1F5E1}, {0x1F600, 0x1F64F},
	{0x1F680, 0x1F680}, {0x1F6A9, 0x1F6AB}, {0x1F6AE, 0x1F6AE}, {0x1F6BD, 0x1F6BD}, {0x1F90C, 0x1F93E}, {0x1F970, 0x1F97A},
	{0x1F984, 0x1F9A2}, {0x1F9D0, 0x1F9E0}, {0x1FAE0, 0x1FAE8},
}

// writeVocabulary writes MiniLM's WordPiece vocabulary to the directory names, with emoji in the rows that BERT left unused:
// once as a word, and once as its continuation, since people write "great😂😂". It returns the tokens whose embedding is
// not that of MiniLM, by row, with the text that describes them.
func writeVocabulary(minilm, names string) (map[int]string, error) {
	data, err := os.ReadFile(filepath.Join(minilm, "vocab.txt"))
	if err != nil {
		return nil, err
	}
	words := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	var unused []int
	for row, word := range words {
		if strings.HasPrefix(word, "[unused") {
			unused = append(unused, row)
		}
	}
	described := map[int]string{}
	for _, r := range emoji {
		for c := r[0]; c <= r[1]; c++ {
			if slices.Contains(words, string(c)) {
				continue
			}
			for _, prefix := range []string{"", "##"} {
				if len(unused) == 0 {
					return nil, fmt.Errorf("%s has too few unused rows for all emoji", minilm)
				}
				words[unused[0]] = prefix + string(c)
				described[unused[0]] = strings.ToLower(runenames.Name(c))
				unused = unused[1:]
			}
		}
	}
	if err := mkdirEmpty(names); err != nil {
		return nil, err
	}
	const special = `"unk_token":"[UNK]","sep_token":"[SEP]","pad_token":"[PAD]","cls_token":"[CLS]","mask_token":"[MASK]"}` + "\n"
	for name, content := range map[string]string{
		"vocab.txt": strings.Join(words, "\n") + "\n",
		"tokenizer_config.json": `{"tokenizer_class":"BertTokenizer","do_lower_case":true,"strip_accents":null,` +
			`"tokenize_chinese_chars":true,"model_max_length":512,` + special,
		"special_tokens_map.json": "{" + special,
	} {
		if err := os.WriteFile(filepath.Join(names, name), []byte(content), 0o644); err != nil {
			return nil, err
		}
	}
	return described, nil
}

// describe replaces the embeddings of the described rows by the mean of the embeddings of their description.
func describe(pieces *tokenizer.Tokenizer, described map[int]string, embeddings []float32, width int) error {
	if want := pieces.VocabSize() * width; len(embeddings) != want {
		return fmt.Errorf("the embedding has %d values, want %d", len(embeddings), want)
	}
	for row, text := range described {
		to := embeddings[row*width:][:width]
		clear(to)
		ids := pieces.IDs(text)
		for _, id := range ids {
			for i, x := range embeddings[int(id)*width:][:width] {
				to[i] += x / float32(len(ids))
			}
		}
	}
	return nil
}
