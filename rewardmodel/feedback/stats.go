package feedback

import (
	"cmp"
	"maps"
	"slices"

	"assay/rewardmodel/bag"
)

// Stats counts the labeled responses. Each is in one of Bags, HeldOut, OverShare and
// Disputed, unless its labels are only of aspects that the model does not have. A response that
// violates any aspect of the model is a violation, unless a label of the whole
// response says otherwise.
type Stats struct {
	Bags              int `json:"bags"`                // to train on
	Violations        int `json:"violations"`          // of these
	HeldOut           int `json:"held_out"`            // for the gate
	HeldOutViolations int `json:"held_out_violations"` // of these
	Disputed          int `json:"disputed"`            // omitted: the raters disagree
	// OverShare are omitted because their sender has too large a share of the label; see
	// Split.MaxSenderShare.
	OverShare           int       `json:"over_share,omitzero"`
	OverShareViolations int       `json:"over_share_violations,omitzero"` // of these
	Raters              int       `json:"raters"`                         // with a label in force
	Records             int       `json:"records"`                        // labels in force
	New                 NewCounts `json:"new"`
	// Aspects counts the labels of each aspect: those of a model with several, and
	// those that labels name. Of other aspects than the model's it has the most
	// frequent ones, at most MaxOtherAspects. nil: the model has one aspect, and no
	// label names one.
	Aspects map[string]AspectStats `json:"aspects,omitzero"`
}

// NewCounts count the responses to train on that were labeled or changed since a
// sequence.
type NewCounts struct {
	Bags       int `json:"bags"`
	Violations int `json:"violations"`
}

// AspectStats counts the responses that have a label of one aspect; the fields are as
// in Stats.
type AspectStats struct {
	Bags                int       `json:"bags"`
	Violations          int       `json:"violations"`
	HeldOut             int       `json:"held_out"`
	HeldOutViolations   int       `json:"held_out_violations"`
	Disputed            int       `json:"disputed"`
	New                 NewCounts `json:"new"`
	OverShare           int       `json:"over_share,omitzero"`
	OverShareViolations int       `json:"over_share_violations,omitzero"`
	// Unknown reports that the model has no such aspect: its labels are not used.
	Unknown bool `json:"unknown,omitzero"`
}

// MaxOtherAspects is the maximum number of aspects in Stats that the model does not
// have, such as mistyped ones.
const MaxOtherAspects = 16

// Stats counts the responses of the index under a split, for a model with the given
// aspects; none: a single unnamed one. A bag is new when its sequence is greater than
// since.
func (x *Index) Stats(split Split, since uint64, aspects ...string) Stats {
	aspects = aspectsOr(aspects)
	resolver := newResolver(split, aspects)
	x.mu.RLock()
	defer x.mu.RUnlock()
	var all AspectStats
	byAspect := make(map[string]*AspectStats, len(aspects))
	for _, aspect := range aspects {
		byAspect[aspect] = &AspectStats{}
	}
	limited, shares := split.MaxSenderShare > 0 && split.MaxSenderShare < 1, pools{}
	raters, records, named := map[Hash]struct{}{}, 0, len(aspects) > 1
	for id, first := range x.first {
		others := x.others[id]
		count := func(r record) {
			if !r.withdrawn() {
				raters[r.rater] = struct{}{}
				records++
			}
		}
		count(first)
		for _, o := range others.all() {
			count(o)
		}
		b := x.resolve(id, first, others, resolver)
		if !b.Unlabeled {
			all.add(b, label(b.Violation, b.Disputed), since)
			if limited && !b.Disputed {
				shares.of(b, aspects).count(b, since)
			}
		}
		named = named || b.Labels.Aspects != nil
		countAspects(byAspect, b, aspects, since)
	}
	for _, p := range shares {
		bags, fresh := p.omitted(split.MaxSenderShare)
		all.omit(label(p.first.Violation, false), p.first.HeldOut, bags, fresh)
		for _, aspect := range aspects {
			if l := p.first.Labels.For(aspect, len(aspects)); l != "" {
				byAspect[aspect].omit(l, p.first.HeldOut, bags, fresh)
			}
		}
	}
	s := Stats{Bags: all.Bags, Violations: all.Violations, HeldOut: all.HeldOut, HeldOutViolations: all.HeldOutViolations,
		OverShare: all.OverShare, OverShareViolations: all.OverShareViolations, Disputed: all.Disputed, Raters: len(raters), Records: records, New: all.New}
	if named {
		s.Aspects = mostFrequent(byAspect, aspects)
	}
	return s
}

// countAspects adds a response to the counts of each aspect that it has a label for.
func countAspects(to map[string]*AspectStats, b Bag, aspects []string, since uint64) {
	for _, aspect := range aspects {
		l := b.Labels.For(aspect, len(aspects))
		if disputed := l == "" && (slices.Contains(b.Tied, aspect) || len(aspects) == 1 && b.Disputed); l != "" || disputed {
			to[aspect].add(b, l, since)
		}
	}
	other := func(aspect string, l bag.Label) {
		if slices.Contains(aspects, aspect) {
			return
		}
		if to[aspect] == nil {
			to[aspect] = &AspectStats{Unknown: true}
		}
		to[aspect].add(b, l, since)
	}
	for aspect, l := range b.Labels.Aspects {
		other(aspect, l)
	}
	for _, aspect := range b.Tied {
		other(aspect, "")
	}
}

// mostFrequent returns the counts of the aspects of a model and those of the most
// frequent others.
func mostFrequent(byAspect map[string]*AspectStats, aspects []string) map[string]AspectStats {
	size := func(name string) int { return byAspect[name].Bags + byAspect[name].HeldOut + byAspect[name].Disputed }
	others := slices.SortedFunc(maps.Keys(byAspect), func(a, b string) int {
		return cmp.Or(cmp.Compare(size(b), size(a)), cmp.Compare(a, b))
	})
	others = slices.DeleteFunc(others, func(name string) bool { return slices.Contains(aspects, name) })
	out := map[string]AspectStats{}
	for _, name := range slices.Concat(aspects, others[:min(len(others), MaxOtherAspects)]) {
		out[name] = *byAspect[name]
	}
	return out
}

func label(violation, disputed bool) bag.Label {
	switch {
	case disputed:
		return ""
	case violation:
		return bag.Violation
	}
	return bag.Compliant
}

// add counts a response with a label; "" if it is disputed.
func (c *AspectStats) add(b Bag, l bag.Label, since uint64) {
	violation := 0
	if l == bag.Violation {
		violation = 1
	}
	switch {
	case l == "":
		c.Disputed++
	case b.HeldOut:
		c.HeldOut++
		c.HeldOutViolations += violation
	default:
		c.Bags++
		c.Violations += violation
		if b.Sequence > since {
			c.New.Bags++
			c.New.Violations += violation
		}
	}
}
