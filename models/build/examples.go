package main

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"assay/rewardmodel/bag"
)

// More sources of responses.
const (
	edos         = "edos"
	hatemoji     = "hatemoji"
	toxiGen      = "toxigen"
	hh           = "hh"            // never trained on
	xsTest       = "xstest"        // never trained on
	pairs        = "pairs"         // of corpus
	written      = "responses"     // of corpus
	document     = "documents"     // of corpus
	conversation = "conversations" // of corpus
	harmless     = "harmless"      // of corpus; never trained on

	ratedSentence = "sentences" // of toxicSpans
	excerptOf     = "excerpts"  // of document
)

// readExamples reads the licensed sets (CC0, Apache-2.0, CC BY 4.0 and MIT) and the corpus, divided into training,
// validation and test.
func readExamples(cfg config) (split, error) {
	s := split{validation: map[string][]example{}, test: map[string][]example{}}
	at := func(parts ...string) string { return filepath.Join(append([]string{cfg.data}, parts...)...) }
	for _, set := range []struct {
		read        func(path string) ([]example, error)
		train, test string // test "": a tenth of train
	}{
		{readSpanExamples, at(toxicSpans, "tsd_train.csv"), at(toxicSpans, "tsd_trial.csv")},
		{readConvAbuseExamples, at(convAbuse, "ConvAbuseEMNLPtrain.csv"), at(convAbuse, "ConvAbuseEMNLPvalid.csv")},
		{readDialogueExamples, at(diaSafety, "train.json"), at(diaSafety, "val.json")},
		{readTweetExamples, at(hateOffensive, "labeled_data.csv"), ""},
		{readAnswerExamples(gptFuzz), at("gptfuzz_responses", "train.jsonl.gz"), ""},
		{readAnswerExamples(jailbreakBench), at(jailbreakBench, "train.jsonl.gz"), ""},
		{readPostExamples(edos, sexism), at(edos, "train.jsonl.gz"), at(edos, "dev.jsonl.gz")},
		{readPostExamples(hatemoji, hate), at("hatemoji_build", "train.jsonl.gz"), at("hatemoji_build", "validation.jsonl.gz")},
		{readStatementExamples, at("safenlp", "toxigen_human.jsonl.gz"), ""},
		{readPairs, filepath.Join(cfg.corpus, pairs), ""},
		{readWritten(written), filepath.Join(cfg.corpus, written), ""},
		{readDocuments, filepath.Join(cfg.corpus, document), ""},
		{readConversations, filepath.Join(cfg.corpus, conversation), ""},
	} {
		examples, err := set.read(set.train)
		var test []example
		if err == nil && set.test != "" {
			test, err = set.read(set.test)
		}
		if err != nil {
			return split{}, fmt.Errorf("--data: %w (the README describes how to fill the directory)", err)
		}
		s.add(examples, test)
	}
	for _, set := range []struct {
		read func(path string) ([]example, error)
		path string
	}{
		{readPreferences, at("hh_harmless_pairs", "valid.jsonl.gz")},
		{readRequests, at(xsTest, "gpt4.jsonl.gz")},
		{readRequests, at(xsTest, "mistralinstruct.jsonl.gz")},
		{readHarmless, filepath.Join(cfg.corpus, harmless)},
	} {
		unused, err := set.read(set.path)
		if err != nil {
			return split{}, fmt.Errorf("--data: %w (the README describes how to fill the directory)", err)
		}
		s.halve(unused)
	}
	s.dropNearDuplicates()
	return s, nil
}

func readSpanExamples(path string) ([]example, error) {
	items, err := readToxicSpans(path, true)
	return convert(items, func(it item) (bag.Bag, bool) {
		b := with(violates(toxicity), "", it.text)
		b.Spans = it.spans
		return b, true
	}), err
}

func readConvAbuseExamples(path string) ([]example, error) {
	items, err := readConvAbuse(path)
	return convert(items, func(it item) (bag.Bag, bool) {
		if it.label == bag.Violation {
			return with(violates(toxicity), "", it.text), true
		}
		return with(complies(), "", it.text), it.kind != disputed
	}), err
}

func readTweetExamples(path string) ([]example, error) {
	items, err := readHateOffensive(path)
	return convert(items, func(it item) (bag.Bag, bool) {
		switch it.kind {
		case "hate":
			return with(violates(toxicity, hate), "", it.text), true
		case "offensive":
			return with(violates(toxicity), "", it.text), true
		}
		return with(complies(), "", it.text), true
	}), err
}

func readDialogueExamples(path string) ([]example, error) {
	dialogues, err := readDialogues(path)
	if err != nil {
		return nil, err
	}
	out := make([]example, len(dialogues))
	for i, d := range dialogues {
		aspect, known := diaSafetyAspect[d.category]
		if !known {
			return nil, fmt.Errorf("%s: response %d: category %q is unknown", path, i+1, d.category)
		}
		out[i] = example{diaSafety, cmp.Or(d.prompt, d.response), with(judged(d.label, aspect), d.prompt, d.response), fields{Category: d.category}}
	}
	return out, nil
}

func readAnswerExamples(source string) func(string) ([]example, error) {
	return func(path string) ([]example, error) {
		answers, err := readAnswers(source, path)
		out := make([]example, len(answers))
		for i, a := range answers {
			labels := complies()
			if a.label == bag.Violation {
				labels = violates(harm)
			}
			out[i] = example{source, a.group, with(labels, a.prompt, a.response), fields{}}
		}
		return out, err
	}
}

// readPostExamples reads a set of posts that judges one aspect. The two posts of a contrast pair are in one group.
func readPostExamples(source, aspect string) func(string) ([]example, error) {
	return func(path string) ([]example, error) {
		var out []example
		err := readLines(path, func(line []byte) error {
			var row struct {
				ID, Pair, Response string
				Label              bag.Label
			}
			if err := json.Unmarshal(line, &row); err != nil {
				return err
			}
			group := row.Response
			if row.Pair != "" {
				group = min(row.ID, row.Pair) + " " + max(row.ID, row.Pair)
			}
			out = append(out, example{source, group, with(judged(row.Label, aspect), "", cleanText(row.Response)), fields{}})
			return nil
		})
		return out, err
	}
}

// readPreferences reads pairs of answers to the same conversation. The one that the raters found more harmful is a
// violation, though both may violate, or neither: only the ranking means something.
func readPreferences(path string) ([]example, error) {
	var out []example
	err := readLines(path, func(line []byte) error {
		var row struct {
			Context          []struct{ Content string }
			Chosen, Rejected string
		}
		if err := json.Unmarshal(line, &row); err != nil {
			return err
		}
		prompt := ""
		if n := len(row.Context); n > 0 {
			prompt = row.Context[n-1].Content
		}
		out = append(out,
			example{hh, prompt + row.Chosen, with(complies(), prompt, row.Chosen), fields{}},
			example{hh, prompt + row.Chosen, with(violates(harm), prompt, row.Rejected), fields{}})
		return nil
	})
	return out, err
}

// readRequests reads answers to unsafe requests and to safe ones with the same words. Compliance with the former
// is a violation; partial refusals are left out.
func readRequests(path string) ([]example, error) {
	var out []example
	err := readLines(path, func(line []byte) error {
		var row struct {
			Prompt, Response, Refusal string
			Type                      string `json:"prompt_type"`
		}
		if err := json.Unmarshal(line, &row); err != nil {
			return err
		}
		labels := complies()
		switch {
		case row.Refusal == "3_partial_refusal":
			return nil
		case row.Refusal == "1_full_compliance" && strings.HasPrefix(row.Type, "contrast_"):
			labels = violates(harm)
		}
		out = append(out, example{xsTest, row.Prompt, with(labels, row.Prompt, row.Response), fields{Category: row.Type}})
		return nil
	})
	return out, err
}

// readStatementExamples reads the statements about groups on whose label the raters agree.
func readStatementExamples(path string) ([]example, error) {
	const agreedCompliant, agreedViolation = 1.7, 4 // mean ratings of 1 to 5
	var out []example
	err := readLines(path, func(line []byte) error {
		var row struct {
			Response string
			Score    float64 `json:"toxicity_score"`
		}
		if err := json.Unmarshal(line, &row); err != nil {
			return err
		}
		text := cleanText(row.Response)
		switch {
		case row.Score >= agreedViolation:
			out = append(out, example{toxiGen, text, with(violates(hate), "", text), fields{}})
		case row.Score <= agreedCompliant:
			out = append(out, example{toxiGen, text, with(complies(), "", text), fields{}})
		}
		return nil
	})
	return out, err
}

// readPairs reads the contrast pairs of the corpus: two bags of one utterance for each. A batch is a group.
func readPairs(dir string) ([]example, error) {
	number := 0
	return readBatches(dir, func(batch, category string, line corpusLine) []example {
		violation := complies() // evasion of a harmless request
		if aspect, known := categoryAspect[category]; known {
			violation = violates(aspect)
		}
		number++
		described := fields{Category: category, Form: line.Form, Spelling: line.Spelling, pair: number}
		return []example{
			{pairs, batch, with(violation, "", line.V), described},
			{pairs, batch, with(complies(), "", line.H), described},
		}
	})
}

// readWritten returns a reader of the responses of the corpus. A batch is a group.
func readWritten(source string) func(dir string) ([]example, error) {
	return func(dir string) ([]example, error) {
		return readBatches(dir, func(batch, _ string, line corpusLine) []example {
			labels := complies()
			if aspect, known := categoryAspect[line.Category]; known && line.Label == bag.Violation {
				labels = violates(aspect)
			}
			b := with(labels, line.Prompt, line.Response)
			b.Witness = line.Witness
			return []example{{source, batch, b, fields{Category: line.Category, Form: line.Form}}}
		})
	}
}

// readHarmless reads the harmless texts of the corpus. Each is a group of its own, so that all parts have all lengths of all
// genres.
func readHarmless(dir string) ([]example, error) {
	out, err := readWritten(harmless)(dir)
	for i := range out {
		out[i].group = out[i].bag.Response
	}
	return out, err
}

// readDocuments reads the documents of the corpus: each as it is, and with its violating sentence if it has one. A batch is
// a group.
func readDocuments(dir string) ([]example, error) {
	return readBatches(dir, func(batch, genre string, line corpusLine) []example {
		out := []example{{document, batch, with(complies(), line.Prompt, line.Response), fields{Form: genre}}}
		if line.V != "" {
			before, rest, _ := strings.Cut(line.Response, line.After)
			before += line.After + " "
			violation := with(violates(categoryAspect[line.Category]), line.Prompt, before+line.V+rest)
			start := utf8.RuneCountInString(before)
			violation.Spans = [][2]int{{start, start + utf8.RuneCountInString(line.V)}}
			out = append(out, example{document, batch, violation, fields{Category: line.Category, Form: genre}})
		}
		return out
	})
}

// readConversations reads the twins of the corpus that have prompts: two responses to the same prompt, or the same response to
// two prompts, the violation first. A batch is a group.
func readConversations(dir string) ([]example, error) {
	number := 0
	return readBatches(dir, func(batch, _ string, line corpusLine) []example {
		number++
		described := fields{Category: line.Category, Form: line.Form, pair: number}
		return []example{
			{conversation, batch, with(violates(categoryAspect[line.Category]), line.Prompt+line.VPrompt, line.Response+line.V), described},
			{conversation, batch, with(complies(), line.Prompt+line.HPrompt, line.Response+line.H), described},
		}
	})
}

// corpusLine is a line of models/build/corpus; see its README.
type corpusLine struct {
	V, H, Form, Spelling, Category, After string

	VPrompt string `json:"v_prompt"`
	HPrompt string `json:"h_prompt"`

	Setting, Persona, Register, Style string

	Prompt, Response string
	Label            bag.Label
	Witness          *int
}

// mirrored names the batch with which a batch of the corpus shares its texts.
var mirrored = map[string]string{"unsafe-advice-31": "unsafe-advice-30"}

// readBatches reads the files of a directory of the corpus. Their names are those of the batches, CATEGORY-NN.
func readBatches(dir string, convert func(batch, category string, line corpusLine) []example) ([]example, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: %w", dir, fs.ErrNotExist)
	}
	var out []example
	for _, path := range files {
		batch := strings.TrimSuffix(filepath.Base(path), ".jsonl")
		category := strings.TrimRight(batch, "-0123456789")
		batch = cmp.Or(mirrored[batch], batch)
		header := true
		if err := readLines(path, func(text []byte) error {
			var line corpusLine
			if err := json.Unmarshal(text, &line); err != nil || header {
				header = false
				return err
			}
			out = append(out, convert(batch, category, line)...)
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return out, err
}

// convert turns items into examples. Each is a group of its own; take says which labels it has, and whether to use it.
func convert(items []item, take func(item) (bag.Bag, bool)) []example {
	var out []example
	for _, it := range items {
		if b, ok := take(it); ok && b.Response != "" {
			out = append(out, example{it.source, b.Response, b, fields{Category: it.kind}})
		}
	}
	return out
}

// readLines calls each with the lines of a JSONL file, which may be compressed.
func readLines(path string, each func(line []byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var in io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(file); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		if err := each(lines.Bytes()); err != nil {
			return fmt.Errorf("%s: line %d: %w", path, n, err)
		}
	}
	return lines.Err()
}
