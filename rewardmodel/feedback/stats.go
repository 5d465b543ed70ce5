package feedback

// Stats counts the labeled responses. Each is in one of Bags, HeldOut and Disputed.
type Stats struct {
	Bags              int `json:"bags"`                // to train on
	Violations        int `json:"violations"`          // of these
	HeldOut           int `json:"held_out"`            // for the gate
	HeldOutViolations int `json:"held_out_violations"` // of these
	Disputed          int `json:"disputed"`            // omitted: the raters disagree
	Raters            int `json:"raters"`              // with a label in force
	Records           int `json:"records"`             // labels in force
	// New counts those of Bags that were labeled or changed since a sequence.
	New struct {
		Bags       int `json:"bags"`
		Violations int `json:"violations"`
	} `json:"new"`
}

// Stats counts the responses of the index under a split. A bag is new when its
// sequence is greater than since.
func (x *Index) Stats(split Split, since uint64) Stats {
	splitter := newSplitter(split)
	x.mu.RLock()
	defer x.mu.RUnlock()
	s := Stats{Records: x.count}
	raters := map[Hash]struct{}{}
	for id, first := range x.first {
		others := x.others[id]
		raters[first.rater] = struct{}{}
		for _, o := range others.all() {
			raters[o.rater] = struct{}{}
		}
		s.add(resolve(id, first, others, splitter), since)
	}
	s.Raters = len(raters)
	return s
}

func (s *Stats) add(b Bag, since uint64) {
	violation := 0
	if b.Violation {
		violation = 1
	}
	switch {
	case b.Disputed:
		s.Disputed++
	case b.HeldOut:
		s.HeldOut++
		s.HeldOutViolations += violation
	default:
		s.Bags++
		s.Violations += violation
		if b.Sequence > since {
			s.New.Bags++
			s.New.Violations += violation
		}
	}
}
