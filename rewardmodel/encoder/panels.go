package encoder

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
	share := (total + number - 1) / number

	var to panels
	var rows, done int64
	for begin := 0; begin < len(p.lengths); {
		end := begin
		for border := (done/share + 1) * share; end < len(p.lengths) && (end == begin || done+p.lengths[end]/2 < border); end++ {
			done += p.lengths[end]
		}
		to.panel = append(to.panel, int64(len(to.first)))
		rows = to.add(p, begin, end)
		to.rows, begin = max(to.rows, rows), end
	}
	to.panel = append(to.panel, int64(len(to.first)))
	return to
}

// add appends the panel of sequences [begin, end) and returns its rows.
func (to *panels) add(p *packed, begin, end int) (rows int64) {
	segment := func(first, length, context, result int64) {
		to.first, to.length = append(to.first, first), append(to.length, length)
		to.context, to.result = append(to.context, context), append(to.result, result)
		rows += length
	}
	at := map[int]int64{} // segments of contexts
	for s := begin; s < end && p.contexts.of != nil; s++ {
		c := p.contexts.of[s]
		if _, seen := at[c]; c < 0 || seen {
			continue
		}
		at[c] = int64(len(to.first))
		segment(p.contexts.first[c], p.contexts.lengths[c], -1, -1)
	}
	for s := begin; s < end; s++ {
		context := int64(-1)
		if p.contexts.of != nil && p.contexts.of[s] >= 0 {
			context = at[p.contexts.of[s]]
		}
		segment(p.first[s], p.lengths[s], context, int64(s))
	}
	return rows
}
