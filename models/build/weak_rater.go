package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"assay/internal/durable"
	"assay/lab/bench"
	"assay/rewardmodel/bag"
)

// alt-profanity-check, a linear classifier of insults and profanity trained on other comments, serves as a weak rater where
// the sets are silent:
//
//   - A toxic comment says nothing about which of its sentences is toxic. Where the rater is sure, a sentence becomes a bag
//     of its own. On the sentences of the validation comments, of which 39 % are toxic by the gold spans, 11 % of those
//     below weakCompliant and 87 % of those above weakViolation are.
//   - Posts that a set calls not sexist or not hateful may be insults. They are harmless as a whole below weakHarmless.
const (
	weakRater     = "alt-profanity-check"
	weakCompliant = 0.05
	weakViolation = 0.7
	weakHarmless  = 0.2
)

// ratings are the scores of the weak rater by text.
type ratings map[string]float64

// toRate returns the texts that the weak rater rates: the sentences of the training comments that have several, and the
// posts that comply with the only rule of their set.
func toRate(train []example) []string {
	var out []string
	for _, e := range train {
		switch {
		case e.source == toxicSpans:
			if sentences := sentencesOf(e.bag); len(sentences) > 1 {
				out = append(out, sentences...)
			}
		case (e.source == edos || e.source == hatemoji) && !e.isViolation():
			out = append(out, e.bag.Response)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func sentencesOf(b bag.Bag) []string {
	segments := segmentsOf(b)
	out := make([]string, len(segments))
	for i, s := range segments {
		out[i] = s.Text
	}
	return out
}

// rate returns the ratings of the texts of the training examples, from rated.json if it has them.
func rate(cfg config, train []example, log io.Writer) (ratings, error) {
	texts := toRate(train)
	in, out := filepath.Join(cfg.work, "to-rate.json"), filepath.Join(cfg.work, "rated.json")
	input, err := json.Marshal(map[string]any{"texts": texts, "classifiers": []string{weakRater}})
	if err != nil {
		return nil, err
	}
	if known, err := os.ReadFile(in); err != nil || !bytes.Equal(known, input) || !isFile(out) {
		if err := errors.Join(os.RemoveAll(out), durable.WriteFile(in, input, 0o644)); err != nil {
			return nil, err
		}
		dir := bench.Dir{
			Path: filepath.Join(cfg.work, "rater"), Python: "python3",
			Notify: func(message string) { fmt.Fprintln(log, message) },
		}
		if err := dir.Baselines(context.Background(), in, out); err != nil {
			return nil, fmt.Errorf("rating with %s: %w", weakRater, err)
		}
	}
	data, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}
	var scores map[string][]float64
	if err := json.Unmarshal(data, &scores); err != nil {
		return nil, fmt.Errorf("%s: %w", out, err)
	}
	if got := len(scores[weakRater]); got != len(texts) {
		return nil, fmt.Errorf("%s has %d scores of %s for %d texts; remove it", out, got, weakRater, len(texts))
	}
	rated := ratings{}
	for i, text := range texts {
		rated[text] = scores[weakRater][i]
	}
	return rated, nil
}

// sentences returns the sentences of toxic comments of whose label the rater is sure.
func (r ratings) sentences(train []example) []example {
	var out []example
	seen := map[string]bool{}
	for _, e := range train {
		if e.source != toxicSpans {
			continue
		}
		for _, text := range sentencesOf(e.bag) {
			score, rated := r[text]
			if !rated || seen[fold(text)] || utterances(bag.Bag{Response: text}) != 1 {
				continue
			}
			seen[fold(text)] = true
			switch {
			case score < weakCompliant:
				out = append(out, example{source: ratedSentence, group: text, bag: with(complies(toxicity), "", text)})
			case score > weakViolation:
				out = append(out, example{source: ratedSentence, group: text, bag: with(violates(toxicity), "", text)})
			}
		}
	}
	return out
}

// harmless leaves out what complies with the only rule of its set, but may violate another one.
func (r ratings) harmless(examples []example) []example {
	var out []example
	for _, e := range examples {
		if score, rated := r[e.bag.Response]; !rated || e.isViolation() || score < weakHarmless {
			out = append(out, e)
		}
	}
	return out
}
