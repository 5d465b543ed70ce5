package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"assay/rewardmodel/bag"
)

// The composition of the data. Comments have the total of which each number is a part.
const (
	offensiveTweets = 1200 // of 19,190; all 1,430 of class hate are used
	mixedBags       = 1800 // bags of each label with one comment among normal sentences
	longest         = 12   // instances; longer violations share one bin
	familiar        = 6    // words; longer training texts must not occur in evaluation
)

// sampledBag is a bag with its source in the table.
type sampledBag struct {
	bag       bag.Bag
	source    string
	instances int
}

// mixer builds bags from a corpus.
type mixer struct {
	rng       *rand.Rand
	compose   *composer
	normal    map[string][]item // by source
	violate   map[string][]item
	briefGood map[string][]string // texts of normal that can be placed among others, by source
	briefBad  map[string][]string
	bags      []sampledBag
	perLabel  map[string]int // bags so far, by source and label; numbers the ids
}

// mix returns the training bags, shuffled. Half of the bags of every instance
// count are violations, so that length does not predict the label.
func mix(c corpus, seed uint64) ([]sampledBag, error) {
	rng := rand.New(rand.NewPCG(seed, 0xa55a))
	compose, err := newComposer(rng)
	if err != nil {
		return nil, err
	}
	m := &mixer{
		rng: rng, compose: compose,
		normal: map[string][]item{}, violate: map[string][]item{},
		briefGood: map[string][]string{}, briefBad: map[string][]string{}, perLabel: map[string]int{},
	}
	m.sort(c)
	for _, source := range []string{toxicSpans, diaSafety, convAbuse, hateOffensive} {
		m.briefGood[source], m.briefBad[source] = brief(m.normal[source]), brief(m.violate[source])
		if len(m.briefBad[source]) == 0 || len(m.briefGood[source]) == 0 && source != toxicSpans {
			return nil, fmt.Errorf("%s has no short texts of both labels; is the set whole?", source)
		}
		for _, it := range m.violate[source] {
			m.add(source, it.label, it.text)
		}
		for _, it := range m.normal[source] {
			m.add(source, it.label, it.text)
		}
	}
	for range mixedBags {
		m.addMixedPair()
	}
	m.balance()
	m.rng.Shuffle(len(m.bags), func(i, j int) { m.bags[i], m.bags[j] = m.bags[j], m.bags[i] })
	return m.bags, nil
}

// sort divides the training texts among normal and violate. It drops repeated
// texts (except short ones of dialogues, which naturally repeat), disputed ones,
// those that occur in an evaluation set, and most offensive tweets.
func (m *mixer) sort(c corpus) {
	held, seen := map[string]bool{}, map[string]bool{}
	for _, items := range c.evaluation {
		for _, it := range items {
			held[fold(it.text)] = true
		}
	}
	var offensive []item
	for _, it := range c.train {
		key := fold(it.text)
		short := len(strings.Fields(key)) <= familiar
		if key == "" || it.kind == disputed || held[key] && !short || seen[key] && !(short && it.source == convAbuse) {
			continue
		}
		seen[key] = true
		switch {
		case it.kind == "offensive":
			offensive = append(offensive, it)
		case it.label == bag.Violation:
			m.violate[it.source] = append(m.violate[it.source], it)
		default:
			m.normal[it.source] = append(m.normal[it.source], it)
		}
	}
	for _, at := range m.rng.Perm(len(offensive))[:min(offensiveTweets, len(offensive))] {
		m.violate[hateOffensive] = append(m.violate[hateOffensive], offensive[at])
	}
}

func fold(text string) string { return strings.ToLower(strings.Join(strings.Fields(text), " ")) }

// utterances returns the number of utterances of a bag.
func utterances(b bag.Bag) int {
	segments, _ := b.Segments(context.Background(), 0, nil) // fails only for a canceled context
	return len(segments)
}

func (m *mixer) add(source string, label bag.Label, text string) {
	key := fmt.Sprintf("%s-%.1s", source, label)
	b := bag.Bag{ID: fmt.Sprintf("%s%05d", key, m.perLabel[key]), Label: label, Response: text}
	n := utterances(b)
	if n == 0 {
		return
	}
	m.perLabel[key]++
	m.bags = append(m.bags, sampledBag{bag: b, source: source, instances: n})
}

// addMixedPair adds two bags with an item of the same source at a random position
// among normal sentences: a violation in one, a normal text in the other.
func (m *mixer) addMixedPair() {
	source := toxicSpans
	switch p := m.rng.Float64(); {
	case p > 0.85:
		source = hateOffensive
	case p > 0.65:
		source = convAbuse
	case p > 0.45:
		source = diaSafety
	}
	bad := m.compose.pick(m.briefBad[source])
	var good string
	if normals := m.briefGood[source]; len(normals) > 0 {
		good = m.compose.pick(normals)
	} else { // comments without toxicity are not in that set
		good = strings.Join(m.compose.comment(1+m.rng.IntN(2)), " ")
	}
	normalParts, assisted := 3+m.rng.IntN(7), m.rng.Float64() < 0.6
	for _, insert := range []struct {
		label bag.Label
		text  string
	}{{bag.Violation, bad}, {bag.Compliant, good}} {
		parts := m.normalParts(normalParts, assisted)
		parts = slices.Insert(parts, m.rng.IntN(len(parts)+1), insert.text)
		m.add("planted-"+source, insert.label, m.compose.layout(parts))
	}
}

// contextFree lists the categories of DiaSafety whose unsafe responses are unsafe
// without their context: by what they say, not by what they omit.
var contextFree = []string{"Offending User", "Biased Opinion"}

// brief returns the texts of the items that can be placed among others: at most two
// utterances that need no context.
func brief(items []item) []string {
	var out []string
	for _, it := range items {
		if it.source == diaSafety && it.kind != "" && !slices.Contains(contextFree, it.kind) {
			continue
		}
		if n := utterances(bag.Bag{Response: it.text}); n == 1 || n == 2 {
			out = append(out, it.text)
		}
	}
	return out
}

// normalParts returns n normal parts: an assistant's answer, or a mixture.
func (m *mixer) normalParts(n int, assisted bool) []string {
	if assisted {
		return m.compose.answer(n)
	}
	parts := m.compose.comment((n + 1) / 2)
	for len(parts) < n {
		parts = append(parts, m.compose.pick(m.briefGood[m.anySource()]))
	}
	m.rng.Shuffle(n, func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return parts
}

func (m *mixer) anySource() string {
	return []string{diaSafety, diaSafety, hateOffensive, hateOffensive, convAbuse}[m.rng.IntN(5)]
}

// balance adds normal bags until every instance count has at least as many
// normal bags as violations.
func (m *mixer) balance() {
	missing := map[int]int{} // by instance count: missing normal bags
	for _, b := range m.bags {
		if b.bag.Label == bag.Violation {
			missing[min(b.instances, longest)]++
		} else {
			missing[min(b.instances, longest)]--
		}
	}
	for n := 1; n <= longest; n++ {
		for tries := 0; missing[n] > 0 && tries < 100_000; tries++ {
			source, text := m.fillBin(n)
			b := bag.Bag{Response: text}
			if got := min(utterances(b), longest); missing[got] > 0 {
				m.add(source, bag.Compliant, text)
				missing[got]--
			}
		}
	}
}

// fillBin returns a normal response of about n instances and its source: an
// answer, a comment, or concatenated normal texts of the sets.
func (m *mixer) fillBin(n int) (source, text string) {
	switch p := m.rng.Float64(); {
	case p < 0.35:
		return ownWords, m.compose.layout(m.compose.answer(n))
	case p < 0.7:
		return ownWords, m.compose.layout(m.compose.comment(n))
	default:
		return "glued", m.compose.layout(m.normalParts(n, false))
	}
}
