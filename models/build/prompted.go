package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"strings"

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
	source, category, prompt, response string
	label                              bag.Label
	group                              string
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
		examples := make([]example, len(part))
		for i, p := range part {
			examples[i] = example{source: p.source, bag: bag.Bag{Label: p.label, Prompt: p.prompt, Response: p.response}}
		}
		if err := writeExamples(filepath.Join(cfg.work, "prompted-"+name+".jsonl"), examples, false); err != nil {
			return err
		}
		logSizes(log, "prompted", name, examples)
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
	var rows []struct{ Context, Response, Category, Label string }
	if err := json.Unmarshal(data, &rows); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	out := make([]prompted, 0, len(rows))
	for _, row := range rows {
		if text := cleanText(row.Response); text != "" {
			out = append(out, prompted{
				source: diaSafety, category: row.Category,
				prompt: cleanText(row.Context), response: text, label: labelOf(row.Label == "Unsafe"),
			})
		}
	}
	return out, nil
}

// readAnswers reads answers of language models to harmful requests.
func readAnswers(source, path string) ([]prompted, error) {
	var out []prompted
	err := readLines(path, func(line []byte) error {
		var row struct {
			Prompt, Behavior, Response string
			Label                      bag.Label
		}
		if err := json.Unmarshal(line, &row); err != nil {
			return err
		}
		if strings.TrimSpace(row.Response) != "" {
			out = append(out, prompted{
				source: source, prompt: row.Prompt, response: row.Response, label: row.Label,
				group: cmp.Or(row.Behavior, row.Prompt),
			})
		}
		return nil
	})
	return out, err
}

// tenth selects a tenth of the groups.
func tenth(group string) bool {
	h := fnv.New64a()
	h.Write([]byte(group))
	return h.Sum64()%10 == 0
}
