package feedback

// fewRaters is the maximum number of records for a linear search, which is fast
// enough and needs no memory for a map.
const fewRaters = 8

// raters holds the records of one response beyond its first, one per rater.
// Finding a rater and the newest record take constant time, however many raters
// there are, so that a client that labels as many raters does not slow down others.
type raters struct {
	records []record
	at      map[Hash]int // index in records by rater; nil up to fewRaters
	newest  int          // index of the record with the highest sequence
}

// find returns the index of a rater's record, or -1. A nil r has none.
func (r *raters) find(rater Hash) int {
	if r == nil {
		return -1
	}
	if r.at != nil {
		if i, ok := r.at[rater]; ok {
			return i
		}
		return -1
	}
	for i := range r.records {
		if r.records[i].rater == rater {
			return i
		}
	}
	return -1
}

// put stores a record unless the rater has it or a later one, and reports whether it did.
func (r *raters) put(rec record) bool {
	i := r.find(rec.rater)
	switch {
	case i < 0:
		i = len(r.records)
		r.records = append(r.records, rec)
		r.remember(rec.rater, i)
	case rec.sequence <= r.records[i].sequence:
		return false
	default:
		r.records[i] = rec
	}
	if rec.sequence > r.records[r.newest].sequence {
		r.newest = i
	}
	return true
}

func (r *raters) remember(rater Hash, i int) {
	if r.at != nil {
		r.at[rater] = i
		return
	}
	if len(r.records) <= fewRaters {
		return
	}
	r.at = make(map[Hash]int, len(r.records))
	for i := range r.records {
		r.at[r.records[i].rater] = i
	}
}

// all returns the records; a nil r has none.
func (r *raters) all() []record {
	if r == nil {
		return nil
	}
	return r.records
}

// newest is the record with the highest sequence. Its text and group are those
// of the response: records of other texts exist only where two replicas accepted
// them at the same moment, and do not count.
func newest(first record, others *raters) record {
	if others != nil {
		if last := others.records[others.newest]; last.sequence > first.sequence {
			return last
		}
	}
	return first
}
