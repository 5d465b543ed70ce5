package encoder

import (
	"cmp"
	"slices"
)

// maxPanel is the number of tokens beyond which a panel ends: their activations stay in the cache of a core, and enough
// rows share each read of the weights.
const maxPanel = 256

// panels are a batch as panels.h takes it: whole sequences, each panel preceded by the contexts that its sequences need.
type panels struct {
	panel                          []int64 // the first segment of each panel, and the number of segments
	first, length, context, result []int64 // of each segment
	rows                           int64   // maximum of the rows of a panel
}

// panels divides a batch into panels of about equal size, one per thread or more.
func (p *packed) panels(threads int) panels {
	var total int64
	for _, n := range p.lengths {
		total += n
	}
	number := (total + maxPanel - 1) / maxPanel
	number = (number + int64(threads) - 1) / int64(threads) * int64(threads)

	var to panels
	for _, sequences := range p.divide(int(number)) {
		to.panel = append(to.panel, int64(len(to.first)))
		to.rows = max(to.rows, to.add(p, sequences))
	}
	to.panel = append(to.panel, int64(len(to.first)))
	return to
}

// divide distributes the sequences, the longest first, each to the panel that then has the fewest rows, of number or fewer
// panels. In a small batch, a thread would otherwise wait for another's last sequence. A context counts once in each panel.
func (p *packed) divide(number int) [][]int {
	order := make([]int, len(p.lengths))
	for s := range order {
		order[s] = s
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.lengths[b], p.lengths[a]) })

	type load struct {
		sequences []int
		rows      int64
		contexts  map[int]bool
	}
	loads := make([]load, min(number, len(order)))
	for _, s := range order {
		context := p.contextOf(s)
		with := func(l load) int64 {
			if context < 0 || l.contexts[context] {
				return l.rows + p.lengths[s]
			}
			return l.rows + p.lengths[s] + p.contexts.lengths[context]
		}
		least := 0
		for i := range loads {
			if with(loads[i]) < with(loads[least]) {
				least = i
			}
		}
		to := &loads[least]
		to.rows, to.sequences = with(*to), append(to.sequences, s)
		if context >= 0 {
			if to.contexts == nil {
				to.contexts = map[int]bool{}
			}
			to.contexts[context] = true
		}
	}
	panels := make([][]int, len(loads))
	for i, l := range loads {
		panels[i] = l.sequences
	}
	return panels
}

// contextOf is the index of the context of a sequence, or -1.
func (p *packed) contextOf(s int) int {
	if p.contexts.of == nil {
		return -1
	}
	return p.contexts.of[s]
}

// add appends the panel of some sequences, and returns its rows.
func (to *panels) add(p *packed, sequences []int) (rows int64) {
	segment := func(first, length, context, result int64) {
		to.first, to.length = append(to.first, first), append(to.length, length)
		to.context, to.result = append(to.context, context), append(to.result, result)
		rows += length
	}
	at := map[int]int64{-1: -1} // segments of contexts
	for _, s := range sequences {
		c := p.contextOf(s)
		if _, seen := at[c]; seen {
			continue
		}
		at[c] = int64(len(to.first))
		segment(p.contexts.first[c], p.contexts.lengths[c], -1, -1)
	}
	for _, s := range sequences {
		segment(p.first[s], p.lengths[s], at[p.contextOf(s)], int64(s))
	}
	return rows
}
