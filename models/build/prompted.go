package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"assay/rewardmodel/bag"
)

// Sources of responses with the prompt that they answer.
const (
	gptFuzz        = "gptfuzz"
	jailbreakBench = "jailbreakbench"
)

// prompted is a response with its prompt. Responses of one group are in the same
// part: training or evaluation.
type prompted struct {
	source, prompt, response string
	label                    bag.Label
	group                    string
}

// writePrompted writes prompted-train.jsonl and one prompted-SOURCE.jsonl for
// evaluation per source. DiaSafety has its own evaluation part; of the others it is a
// tenth of the prompts (GPTFuzz) or of the behaviors (JailbreakBench). Responses for
// evaluation that share half of their 5-grams with one for training are left out.
func writePrompted(cfg config, log io.Writer) error {
	at := func(parts ...string) string { return filepath.Join(append([]string{cfg.data}, parts...)...) }
	train, err := readDialogues(at(diaSafety, "train.json"))
	if err != nil {
		return err
	}
	held, err := readDialogues(at(diaSafety, "val.json"))
	if err != nil {
		return err
	}
	for _, source := range []struct{ name, path string }{
		{gptFuzz, at("gptfuzz_responses", "train.jsonl.gz")}, {jailbreakBench, at(jailbreakBench, "train.jsonl.gz")},
	} {
		all, err := readAnswers(source.name, source.path)
		if err != nil {
			return err
		}
		for _, p := range all {
			if tenth(p.group) {
				held = append(held, p)
			} else {
				train = append(train, p)
			}
		}
	}
	known := shingles{}
	for _, p := range train {
		known.add(p.response)
	}
	parts := map[string][]prompted{"train": train}
	dropped := 0
	for _, p := range held {
		if known.overlap(p.response) >= 0.5 {
			dropped++
			continue
		}
		parts[p.source] = append(parts[p.source], p)
	}
	for name, part := range parts {
		violations := 0
		err := writeFile(filepath.Join(cfg.work, "prompted-"+name+".jsonl"), func(yield func(bag.Bag) bool) {
			for i, p := range part {
				if p.label == bag.Violation {
					violations++
				}
				id := fmt.Sprintf("%s-%05d", p.source, i)
				if !yield(bag.Bag{ID: id, Label: p.label, Prompt: p.prompt, Response: p.response}) {
					return
				}
			}
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(log, "prompted-%s.jsonl: %d responses, %d violations\n", name, len(part), violations)
	}
	fmt.Fprintf(log, "%d responses for evaluation repeat one for training and are left out\n", dropped)
	return nil
}

// readDialogues reads DiaSafety with the turn that each response answers.
func readDialogues(path string) ([]prompted, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rows []struct{ Context, Response, Label string }
	if err := json.Unmarshal(data, &rows); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	out := make([]prompted, 0, len(rows))
	for _, row := range rows {
		if text := cleanText(row.Response); text != "" {
			out = append(out, prompted{source: diaSafety, prompt: cleanText(row.Context), response: text, label: labelOf(row.Label == "Unsafe")})
		}
	}
	return out, nil
}

// readAnswers reads answers of language models to harmful requests.
func readAnswers(source, path string) ([]prompted, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var out []prompted
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var row struct {
			Prompt, Behavior, Response string
			Label                      bag.Label
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		group := row.Behavior
		if group == "" {
			group = row.Prompt
		}
		if strings.TrimSpace(row.Response) != "" {
			out = append(out, prompted{source: source, prompt: row.Prompt, response: row.Response, label: row.Label, group: group})
		}
	}
	return out, lines.Err()
}

// tenth selects a tenth of the groups.
func tenth(group string) bool {
	h := fnv.New64a()
	h.Write([]byte(group))
	return h.Sum64()%10 == 0
}

// shingles are the 5-grams of words of texts.
type shingles map[uint64]bool

func (s shingles) add(text string) {
	for _, gram := range fiveGrams(text) {
		s[gram] = true
	}
}

// overlap is the share of the 5-grams of text that are known; 0 for a shorter text
// unless it is known as a whole.
func (s shingles) overlap(text string) float64 {
	grams := fiveGrams(text)
	if len(grams) == 0 {
		return 0
	}
	known := 0
	for _, gram := range grams {
		if s[gram] {
			known++
		}
	}
	return float64(known) / float64(len(grams))
}

// fiveGrams returns the hashes of each run of five words, or of the whole of a shorter
// text.
func fiveGrams(text string) []uint64 {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	var out []uint64
	for _, run := range windows(words, 5) {
		h := fnv.New64a()
		h.Write([]byte(strings.Join(run, " ")))
		out = append(out, h.Sum64())
	}
	return out
}

// windows returns each run of n words, or all words if there are fewer.
func windows(words []string, n int) [][]string {
	if len(words) == 0 {
		return nil
	}
	var out [][]string
	for i := 0; i == 0 || i+n <= len(words); i++ {
		out = append(out, words[i:min(i+n, len(words))])
	}
	return out
}
