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
	for _, sequences := range p.divide(int(number), (total+number-1)/number) {
		to.panel = append(to.panel, int64(len(to.first)))
		to.rows = max(to.rows, to.add(p, sequences))
	}
	to.panel = append(to.panel, int64(len(to.first)))
	return to
}

// load is sequences that stay together, and the rows that they take.
type load struct {
	sequences []int
	rows      int64
}

// divide distributes the sequences over number or fewer panels: the largest load first, each to the panel that then has the
// fewest rows. In a small batch, a thread would otherwise wait for another's last sequence.
func (p *packed) divide(number int, share int64) [][]int {
	loads := p.loads(share)
	slices.SortStableFunc(loads, func(a, b load) int { return cmp.Compare(b.rows, a.rows) })
	rows, panels := make([]int64, min(number, len(loads))), make([][]int, min(number, len(loads)))
	for _, l := range loads {
		least := slices.Index(rows, slices.Min(rows))
		rows[least] += l.rows
		panels[least] = append(panels[least], l.sequences...)
	}
	return panels
}

// loads are single sequences, and sequences with the same context, which each panel that has one of them computes again: as
// many of those together as a panel's share.
func (p *packed) loads(share int64) (loads []load) {
	type open struct {
		load int
		own  int64 // rows without the context
	}
	of := map[int]open{}
	for s, length := range p.lengths {
		c := p.contextOf(s)
		o, found := of[c]
		if c < 0 || !found || o.own+length > share {
			loads, o = append(loads, load{}), open{load: len(loads)}
			if c >= 0 {
				loads[o.load].rows = p.contexts.lengths[c]
			}
		}
		o.own += length
		of[c] = o
		l := &loads[o.load]
		l.sequences, l.rows = append(l.sequences, s), l.rows+length
	}
	return loads
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
