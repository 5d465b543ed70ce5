package main

import (
	"fmt"
	"math/rand/v2"
)

// twinsCompared is how many twins of a source are compared at most.
const twinsCompared = 16_000

// comparedByRule returns the texts of the sets that label one rule, each set as a comparison, or each category of a set that
// has several: what complies with the rule of a set may break another, so the labels hold only among the texts of the set.
func comparedByRule(examples []example) []example {
	var out []example
	for _, e := range examples {
		switch e.source {
		case edos, hatemoji, toxiGen:
			e.bag.Comparison = e.source
		case diaSafety:
			e.bag.Comparison = e.source + " " + e.fields.Category
		default:
			continue
		}
		out = append(out, e)
	}
	return out
}

// comparedTwins returns up to twinsCompared twins of a source of the corpus as comparisons.
func comparedTwins(source string, examples []example, seed uint64) []example {
	var twins [][2]example
	for i := range len(examples) - 1 {
		if v, h := examples[i], examples[i+1]; v.source == source && v.fields.pair == h.fields.pair {
			twins = append(twins, [2]example{v, h})
		}
	}
	rng := rand.New(rand.NewPCG(seed, 0xc09a))
	rng.Shuffle(len(twins), func(i, j int) { twins[i], twins[j] = twins[j], twins[i] })
	var out []example
	for i, pair := range twins[:min(len(twins), twinsCompared)] {
		for _, e := range pair {
			e.bag.Comparison = fmt.Sprintf("%s %d", source, i)
			out = append(out, e)
		}
	}
	return out
}

// comparedEmojiTwins returns the contrast pairs of HatemojiBuild as comparisons: most differ by an emoji only.
func comparedEmojiTwins(examples []example) []example {
	groups := map[string][]example{}
	var order []string
	for _, e := range fromSource(hatemoji, examples) {
		if len(groups[e.group]) == 0 {
			order = append(order, e.group)
		}
		groups[e.group] = append(groups[e.group], e)
	}
	var out []example
	for i, group := range order {
		if twins := groups[group]; len(twins) == 2 && twins[0].bag.Verdict() != twins[1].bag.Verdict() {
			for _, e := range twins {
				e.bag.Comparison = fmt.Sprintf("%s %d", hatemoji, i)
				out = append(out, e)
			}
		}
	}
	return out
}

// thirds divides bags into every third one and the others.
func thirds(bags []example) (third, rest []example) {
	for i, e := range bags {
		if i%3 == 0 {
			third = append(third, e)
		} else {
			rest = append(rest, e)
		}
	}
	return third, rest
}
