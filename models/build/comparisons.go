package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// twinsCompared is how many contrast pairs are compared with their twins.
const twinsCompared = 16_000

// comparisons returns bags whose labels hold only among themselves: the texts of a set that labels one rule, since those that
// comply with it may break another, by category where there are several, and twins of the corpus.
func comparisons(examples []example, seed uint64) []example {
	rng := rand.New(rand.NewPCG(seed, 0xc09a))
	var twins [][]example // by pair
	var out []example
	for i, e := range examples {
		switch e.source {
		case edos, hatemoji, toxiGen, diaSafety:
			e.bag.Comparison = e.source
			if e.source == diaSafety {
				e.bag.Comparison += " " + e.fields.Category
			}
			out = append(out, e)
		case pairs:
			if i+1 < len(examples) && examples[i+1].fields.pair == e.fields.pair {
				twins = append(twins, slices.Clone(examples[i:i+2]))
			}
		}
	}
	rng.Shuffle(len(twins), func(i, j int) { twins[i], twins[j] = twins[j], twins[i] })
	for i, pair := range twins[:min(len(twins), twinsCompared)] {
		for _, e := range pair {
			e.bag.Comparison = fmt.Sprintf("%s %d", pairs, i)
			out = append(out, e)
		}
	}
	return out
}
