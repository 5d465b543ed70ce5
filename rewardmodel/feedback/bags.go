package feedback

import (
	"cmp"
	"encoding/binary"
	"iter"
	"slices"
)

// Bag is what the raters of one response agree on.
type Bag struct {
	ID        Hash
	Violation bool   // the label of the majority; false when Disputed
	Sequence  uint64 // of the latest record that counts
	HeldOut   bool   // never trained on; see HeldOut
	Disputed  bool   // as many raters say the one as the other: nothing to learn from
	Raters    int    // whose labels count
}

// HeldOut tells whether a response belongs to the given share (in [0,1]) of all
// that is never trained on. It depends on nothing else than the id and the
// share, and what is held out of a share is held out of a larger one.
func HeldOut(id Hash, share float64) bool {
	const steps = 1 << 53 // as many as a float64 tells apart evenly
	return float64(binary.BigEndian.Uint64(id[:8])>>11)/steps < share
}

// Bags yields every response that has a label, oldest first (by the latest
// record of each), as it was when the iteration began. The index may be changed
// meanwhile. Share is that of HeldOut.
func (x *Index) Bags(share float64) iter.Seq[Bag] {
	return func(yield func(Bag) bool) {
		for _, b := range x.snapshot(share) {
			if !yield(b) {
				return
			}
		}
	}
}

func (x *Index) snapshot(share float64) []Bag {
	x.mu.RLock()
	bags := make([]Bag, 0, len(x.first))
	for id, first := range x.first {
		bags = append(bags, resolve(id, first, x.others[id], share))
	}
	x.mu.RUnlock()
	slices.SortFunc(bags, func(a, b Bag) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return bags
}

// resolve counts the latest label of every rater.
func resolve(id Hash, first record, others []record, share float64) Bag {
	b := Bag{ID: id, HeldOut: HeldOut(id, share)}
	now := newest(first, others)
	b.Sequence = now.sequence
	violations := 0
	count := func(r record) {
		if r.text != now.text {
			return
		}
		b.Raters++
		if r.violation {
			violations++
		}
	}
	count(first)
	for _, o := range others {
		count(o)
	}
	b.Violation = 2*violations > b.Raters
	b.Disputed = 2*violations == b.Raters
	return b
}
