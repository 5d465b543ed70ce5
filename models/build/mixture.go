package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/durable"
	"assay/rewardmodel/bag"
)

// The composition of the training bags.
const (
	offensiveUsed   = 1500 // of 19,190 offensive tweets; all of class hate are used
	postsUsed       = 5000 // of 10,602 posts that EDOS calls not sexist
	embedded        = 4000 // bags of each label with one text among harmless ones
	embeddedInRuns  = 0.5  // of these, in a run of a document of the corpus
	excerpts        = 1    // runs about the violating sentence of each document, and as many without it
	longBags        = 300  // harmless bags of 10 to longestBag utterances
	longestBag      = 60
	fewestNeighbors = 2
	mostNeighbors   = 9
	comments        = 2000 // harmless comments from templates
)

// embeddable are the sources of texts that are placed among others, with their shares.
var embeddable = []struct {
	source string
	share  float64
}{{pairs, 0.5}, {toxicSpans, 0.15}, {hatemoji, 0.1}, {edos, 0.1}, {diaSafety, 0.1}, {convAbuse, 0.05}}

// mixture composes training bags from examples.
type mixture struct {
	rng      *rand.Rand
	compose  *composer
	violate  map[string][]bag.Bag // short texts by source
	comply   map[string][]bag.Bag
	harmless []string // short texts that comply with all aspects
	document []passages
	bags     []example
}

// mixExamples returns the training bags, shuffled: all examples but for the limits above, and bags in which one text is
// among harmless ones, so that neither length nor source predicts a label.
func mixExamples(examples []example, seed uint64) ([]example, error) {
	rng := rand.New(rand.NewPCG(seed, 0xa55b))
	compose, err := newComposer(rng)
	if err != nil {
		return nil, err
	}
	m := &mixture{rng: rng, compose: compose, violate: map[string][]bag.Bag{}, comply: map[string][]bag.Bag{}}
	m.bags = m.limit(examples)
	for _, e := range m.bags {
		m.collect(e)
	}
	for _, s := range embeddable {
		if len(m.violate[s.source]) == 0 || len(m.comply[compliantPartner(s.source)]) == 0 {
			return nil, fmt.Errorf("%s has no short violation or no short text that complies; is the set whole?", s.source)
		}
	}
	if len(m.document) == 0 {
		return nil, errors.New("the corpus has no documents")
	}
	for range embedded {
		m.embed()
	}
	for _, e := range examples {
		if e.source == document && e.isViolation() {
			m.excerpt(e)
		}
	}
	for range comments {
		m.add("comments", complies(), m.compose.layout(m.compose.comment(1+m.rng.IntN(4))))
	}
	for range longBags {
		m.add("long", complies(), m.compose.layout(m.neighbors(10+m.rng.IntN(longestBag-9))))
	}
	rng.Shuffle(len(m.bags), func(i, j int) { m.bags[i], m.bags[j] = m.bags[j], m.bags[i] })
	return m.bags, nil
}

func (m *mixture) add(source string, labels bag.Bag, text string) {
	m.bags = append(m.bags, example{source: source, bag: with(labels, "", text)})
}

// limit takes a random part of the two sources that would outweigh the others.
func (m *mixture) limit(examples []example) []example {
	left := map[string]int{"offensive": offensiveUsed, "posts": postsUsed}
	var out []example
	for _, at := range m.rng.Perm(len(examples)) {
		e := examples[at]
		kind := ""
		switch {
		case e.source == hateOffensive && e.isViolation() && e.bag.Labels[hate] == "":
			kind = "offensive"
		case e.source == edos && !e.isViolation():
			kind = "posts"
		}
		if kind != "" {
			if left[kind] == 0 {
				continue
			}
			left[kind]--
		}
		out = append(out, e)
	}
	return out
}

// collect records a text of at most two utterances that can stand among others without its prompt.
func (m *mixture) collect(e example) {
	if e.source == document && !e.isViolation() {
		m.document = append(m.document, passagesOf(e.bag))
	}
	if e.source == diaSafety && e.bag.Labels[harm] != "" || e.bag.Prompt != "" && e.source != diaSafety {
		return
	}
	if n := utterances(e.bag); n < 1 || n > 2 {
		return
	}
	switch {
	case e.isViolation():
		m.violate[e.source] = append(m.violate[e.source], e.bag)
	default:
		m.comply[e.source] = append(m.comply[e.source], e.bag)
		if e.bag.Label == bag.Compliant {
			m.harmless = append(m.harmless, e.bag.Response)
		}
	}
}

// embed adds a violation among harmless texts, and a text of the same source that complies among as many others.
func (m *mixture) embed() {
	p := m.rng.Float64()
	source := embeddable[0].source
	for _, s := range embeddable {
		if source = s.source; p < s.share {
			break
		}
		p -= s.share
	}
	bad := pick(m.rng, m.violate[source])
	source = compliantPartner(source)
	good := pick(m.rng, m.comply[source])
	if m.rng.Float64() < embeddedInRuns {
		between := pick(m.rng, m.document).random(m.rng)
		m.add("embedded-"+source, bad, between.around(bad.Response))
		m.add("embedded-"+source, good, between.around(good.Response))
		return
	}
	n := fewestNeighbors + m.rng.IntN(mostNeighbors-fewestNeighbors+1)
	for _, b := range []bag.Bag{bad, good} {
		parts := m.neighbors(n)
		parts = slices.Insert(parts, m.rng.IntN(n+1), b.Response)
		m.add("embedded-"+source, b, m.compose.layout(parts))
	}
}

// compliantPartner is the source of the compliant texts that stand where violations of a source do.
func compliantPartner(source string) string {
	if source == toxicSpans { // all of its comments are toxic
		return ratedSentence
	}
	return source
}

// excerpt adds parts of a document with its violating sentence, and the same without it.
func (m *mixture) excerpt(e example) {
	whole := passagesOf(e.bag)
	for range excerpts {
		with, without := whole.about(m.rng, e.bag.Spans[0])
		m.add(excerptOf, e.bag, with)
		if without != "" {
			m.add(excerptOf, complies(), without)
		}
	}
}

// neighbors returns n harmless parts: half an assistant's answer or a comment of templates, half texts of the sets.
func (m *mixture) neighbors(n int) []string {
	if n <= mostNeighbors && m.rng.Float64() < 0.4 {
		return m.compose.answer(n)
	}
	parts := make([]string, n)
	for i := range parts {
		parts[i] = pick(m.rng, m.harmless)
	}
	return parts
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

// writeSets writes validation-SOURCE.jsonl and test-SOURCE.jsonl for each source, and logs their sizes.
func writeSets(cfg config, log io.Writer) error {
	s, err := readExamples(cfg)
	if err != nil {
		return err
	}
	for part, sources := range map[string]map[string][]example{"validation": s.validation, "test": s.test} {
		for _, source := range slices.Sorted(maps.Keys(sources)) {
			logSizes(log, part, source, sources[source])
			path := filepath.Join(cfg.work, fmt.Sprintf("%s-%s.jsonl", part, source))
			if err := writeExamples(path, sources[source], cfg.aspects); err != nil {
				return err
			}
		}
	}
	return nil
}

// lastBags are the bags that the last epoch takes of each source, in their random order; it takes otherBags of the sources
// not listed.
var lastBags = map[string]int{written: math.MaxInt, document: 2000, excerptOf: 1600, pairs: 6000, gptFuzz: 1400, jailbreakBench: math.MaxInt, diaSafety: 1500, ratedSentence: 1500}

const otherBags = 6000

// lastEpoch returns the bags of the last epoch.
func lastEpoch(bags []example) []example {
	var out []example
	taken := map[string]int{}
	for _, e := range bags {
		kind := e.source
		limit, ok := lastBags[kind]
		if !ok {
			kind, limit = "", otherBags
		}
		if taken[kind] < limit {
			taken[kind]++
			out = append(out, e)
		}
	}
	return out
}

// moreComments is how many bags of Toxic Spans, and of its rated sentences, the second stage of comparisons takes beyond
// those of the last epoch: the first one, without them, lost what tells the toxic sentences of a comment from the others.
const moreComments = 3000

// commentsAfter returns further bags of Toxic Spans and of its sentences, those after the last epoch's.
func commentsAfter(bags, last []example) []example {
	var out []example
	for _, source := range []string{toxicSpans, ratedSentence} {
		all := fromSource(source, bags)
		from := len(fromSource(source, last))
		out = append(out, all[from:min(len(all), from+moreComments)]...)
	}
	return out
}

// inOne are the sources whose texts of at most inOneWords words are one instance in training. The violation of a short text
// may lie between its sentences, and a sentence that a violation shares with its harmless twin has both labels.
var inOne = []string{pairs, conversation, diaSafety, edos, hatemoji, toxiGen, hateOffensive, convAbuse, ratedSentence, "comments"}

const inOneWords = 40

// inOneInstance makes the short texts of the sources in inOne one instance each.
func inOneInstance(bags []example) []example {
	out := slices.Clone(bags)
	for i, e := range out {
		if slices.Contains(inOne, e.source) && len(strings.Fields(e.bag.Response)) <= inOneWords {
			out[i].bag.Instances, out[i].bag.Response = []string{e.bag.Response}, ""
		}
	}
	return out
}

// fromSource returns the bags of a source.
func fromSource(source string, bags []example) []example {
	return slices.DeleteFunc(slices.Clone(bags), func(e example) bool { return e.source != source })
}

// writeBags writes the bags of the epochs of training, train*.jsonl, and logs the composition of train.jsonl.
func writeBags(cfg config, log io.Writer) error {
	s, err := readExamples(cfg)
	if err != nil {
		return err
	}
	conversations := fromSource(conversation, s.train) // only for the last epoch: the bags of the others stay what they were
	s.train = slices.DeleteFunc(s.train, func(e example) bool { return e.source == conversation })
	rated, err := rate(cfg, s.train, log)
	if err != nil {
		return err
	}
	examples := append(rated.sentences(s.train), s.train...)
	if !cfg.aspects {
		examples = rated.harmless(examples)
	}
	bags, err := mixExamples(examples, cfg.seed)
	if err != nil {
		return err
	}
	bySource := map[string][]example{}
	for _, e := range bags {
		bySource[e.source] = append(bySource[e.source], e)
	}
	for _, source := range slices.Sorted(maps.Keys(bySource)) {
		logSizes(log, "train", source, bySource[source])
	}
	bags = inOneInstance(bags)
	last := lastEpoch(bags)
	third, rest := thirds(last)
	rules := withUnrelatedTurns(inOneInstance(comparedByRule(s.train)), cfg.seed)
	thirdOfRules, _ := thirds(rules)
	twins, otherTwins := comparedInTurns(s.train, cfg.seed)
	var failed error
	for name, part := range map[string][]example{
		"train-pairs": fromSource(pairs, bags), "train": bags, "train-last": last, "train-third": third, "train-rest": append(rest, commentsAfter(bags, last)...),
		"train-rules": inOneInstance(comparedByRule(s.train)), "train-twins": inOneInstance(comparedTwins(pairs, s.train, cfg.seed)),
		"train-turns": inTurns(bags, last, third, cfg.seed), "train-turns-rest": restInTurns(rest, cfg.seed+1),
		"train-turns-last": thirdInTurns(bags, third, nil, cfg.seed+2), "train-turns-rules": rules, "train-turns-third-rules": thirdOfRules,
		"train-turns-twins": twins, "train-turns-other-twins": otherTwins,
		"train-conversations":      thirdInTurns(bags, third, inOneInstance(conversations), cfg.seed+3),
		"train-conversation-twins": inOneInstance(comparedTwins(conversation, conversations, cfg.seed)),
	} {
		failed = errors.Join(failed, writeExamples(filepath.Join(cfg.work, name+".jsonl"), part, cfg.aspects))
	}
	return failed
}

// writeExamples writes bags with the labels of the aspects, or else with that of the response as a whole.
func writeExamples(path string, examples []example, aspects bool) error {
	err := durable.WriteTo(path, 0o644, func(w io.Writer) error {
		for i, e := range examples {
			b := e.bag
			b.ID = fmt.Sprintf("%s-%05d", e.source, i)
			if b.Comparison != "" {
				b.ID = "compared-" + b.ID
			}
			if !aspects {
				b.Label, b.Labels = b.Verdict(), nil
			}
			line, err := b.AppendJSON(nil)
			if err != nil {
				return err
			}
			more, err := json.Marshal(e.fields)
			if err != nil {
				return err
			}
			if len(more) > len("{}") {
				line = append(append(line[:len(line)-1], ','), more[1:]...)
			}
			if _, err := w.Write(append(line, '\n')); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// utterances returns the number of utterances of a bag.
func utterances(b bag.Bag) int { return len(segmentsOf(b)) }

func segmentsOf(b bag.Bag) []bag.Segment {
	segments, _ := b.Segments(context.Background(), 0, nil) // fails only for a canceled context
	return segments
}

func logSizes(log io.Writer, part, source string, examples []example) {
	violations, all := 0, 0
	for _, e := range examples {
		all += utterances(e.bag)
		if e.isViolation() {
			violations++
		}
	}
	fmt.Fprintf(log, "%-10s %-20s %6d responses %6d violations %7d utterances\n", part, source, len(examples), violations, all)
}
