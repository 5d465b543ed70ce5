package feedback

import (
	"cmp"
	"iter"
	"slices"
)

// Bag is a labeled response: the majority of its raters.
type Bag struct {
	ID        Hash
	Violation bool   // the label of the majority; false when Disputed
	Sequence  uint64 // of the latest record
	HeldOut   bool   // never trained on; see Split
	Disputed  bool   // the vote is tied: not trained on
	Raters    int    // whose labels count
}

// Bags yields every response that has a label, oldest first (by the latest
// record of each), as of the start of the iteration. The index may be changed
// concurrently.
func (x *Index) Bags(split Split) iter.Seq[Bag] {
	return func(yield func(Bag) bool) {
		for _, b := range x.snapshot(split) {
			if !yield(b) {
				return
			}
		}
	}
}

func (x *Index) snapshot(split Split) []Bag {
	splitter := newSplitter(split)
	x.mu.RLock()
	bags := make([]Bag, 0, len(x.first))
	for id, first := range x.first {
		bags = append(bags, resolve(id, first, x.others[id], splitter))
	}
	x.mu.RUnlock()
	slices.SortFunc(bags, func(a, b Bag) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return bags
}

// resolve counts the latest label of every rater.
func resolve(id Hash, first record, others *raters, split *splitter) Bag {
	now := newest(first, others)
	b := Bag{ID: id, Sequence: now.sequence, HeldOut: split.heldOut(id, now.group)}
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
	for _, o := range others.all() {
		count(o)
	}
	b.Violation = 2*violations > b.Raters
	b.Disputed = 2*violations == b.Raters
	return b
}
