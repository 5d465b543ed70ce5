package train

import (
	"math/rand/v2"
	"slices"
)

// union is the bags of all aspects of a run, each once, as one aspect sees them: in it a bag violates that violates any
// aspect. The aspects take the same mini-batches of it, each with its own labels, so that a bag that is labeled for
// several aspects is computed once.
type union struct {
	epoch *Epoch  // of the bags of all aspects
	own   [][]int // the bags of the aspect that each bag of the union is
}

// unite gives the epochs of several aspects the same mini-batches. Equal bags are recognized by their first sequence.
func unite(aspects []aspectRun, batch int) {
	all, place := &Data{}, map[sameSequence]int{}
	for _, a := range aspects {
		for _, b := range a.epoch.Data.Bags {
			if first := identity(b.sequence(0)); place[first] == 0 {
				all.Bags = append(all.Bags, b)
				place[first] = len(all.Bags)
			} else if b.Violation {
				all.Bags[place[first]-1].Violation = true
			}
		}
	}
	shared := newEpoch(all, batch)
	for _, a := range aspects {
		e := a.epoch
		e.union = &union{epoch: shared, own: make([][]int, len(all.Bags))}
		for i, b := range e.Data.Bags {
			at := place[identity(b.sequence(0))] - 1
			e.union.own[at] = append(e.union.own[at], i)
		}
	}
}

func (u *union) bagBatches(rng *rand.Rand) [][]int { return u.ownBags(u.epoch.BagBatches(rng)) }

// violatingBatches splits the bags that violate any aspect, in random order, into mini-batches of half as many as there
// are instances in a mini-batch.
func (u *union) violatingBatches(rng *rand.Rand) [][]int {
	bags := slices.Clone(u.epoch.violating)
	rng.Shuffle(len(bags), func(i, j int) { bags[i], bags[j] = bags[j], bags[i] })
	var batches [][]int
	for _, part := range split(len(bags), max(u.epoch.Batch/2, 1)) {
		batches = append(batches, bags[part.start:part.end])
	}
	return u.ownBags(batches)
}

// ownBags replaces the bags of the union by those of the aspect.
func (u *union) ownBags(batches [][]int) [][]int {
	out := make([][]int, len(batches))
	for i, bags := range batches {
		for _, bag := range bags {
			out[i] = append(out[i], u.own[bag]...)
		}
	}
	return out
}

func (u *union) instanceBatches(rng *rand.Rand) [][]ref {
	batches := u.epoch.instanceBatches(rng)
	for i, batch := range batches {
		var own []ref
		for _, r := range batch {
			for _, bag := range u.own[r.bag] {
				own = append(own, ref{bag, r.instance})
			}
		}
		batches[i] = own
	}
	return batches
}
