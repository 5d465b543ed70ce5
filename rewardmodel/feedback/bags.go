package feedback

import (
	"cmp"
	"iter"
	"slices"

	"assay/rewardmodel/bag"
)

// Bag is a labeled response: the majority of its raters.
type Bag struct {
	ID        Hash
	Violation bool   // the verdict of the majority, see Labels; false when Disputed
	Sequence  uint64 // of the latest record with a label
	HeldOut   bool   // never trained on; see Split
	Disputed  bool   // every vote is tied: not trained on
	Unlabeled bool   // no label is of an aspect of the model: not trained on
	Raters    int    // whose labels count
	Sender    Hash   // of the label that decided; zero: without a token, or Disputed, or Unlabeled
	// Labels are the labels of the majority. Those who judged the whole response as
	// compliant also vote on each aspect that others named, if they are the
	// majority. A tied vote gives no label, and a tied aspect also removes the
	// label of the whole response that it would otherwise inherit.
	Labels Labels
	Tied   []string // the aspects whose vote is tied, in order
}

// Bags yields every response that has a label, oldest first (by the latest
// record of each), as of the start of the iteration. The index may be changed
// concurrently. aspects are those of the model that learns from the labels; without
// any, it has a single unnamed one.
func (x *Index) Bags(split Split, aspects ...string) iter.Seq[Bag] {
	return func(yield func(Bag) bool) {
		for _, b := range x.snapshot(split, aspectsOr(aspects)) {
			if !yield(b) {
				return
			}
		}
	}
}

func (x *Index) snapshot(split Split, aspects []string) []Bag {
	resolver := newResolver(split, aspects)
	x.mu.RLock()
	bags := make([]Bag, 0, len(x.first))
	for id, first := range x.first {
		bags = append(bags, x.resolve(id, first, x.others[id], resolver))
	}
	x.mu.RUnlock()
	slices.SortFunc(bags, func(a, b Bag) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return bags
}

// resolver is how the labels of responses are counted, and what they share.
type resolver struct {
	split   *splitter
	aspects []string            // of the model
	labels  map[labelSet]Labels // those that occurred
	counted []record            // of the response
}

func newResolver(split Split, aspects []string) *resolver {
	return &resolver{split: newSplitter(split), aspects: aspects, labels: map[labelSet]Labels{}}
}

// labelsOf returns the labels of a record. Equal ones are the same map.
func (x *Index) labelsOf(r record, how *resolver) Labels {
	l, known := how.labels[r.labels]
	if !known {
		l = x.names.labels(r.labels)
		how.labels[r.labels] = l
	}
	return l
}

// resolve counts the latest labels of every rater.
func (x *Index) resolve(id Hash, first record, others *raters, how *resolver) Bag {
	now := newest(first, others)
	b := Bag{ID: id, HeldOut: how.split.heldOut(id, now.group)}
	var whole vote
	var named []Labels // nil unless an aspect is named
	how.counted = how.counted[:0]
	count := func(r record) {
		if r.text != now.text || r.withdrawn() {
			return
		}
		b.Raters++
		how.counted = append(how.counted, r)
		b.Sequence = max(b.Sequence, r.sequence)
		labels := x.labelsOf(r, how)
		whole.add(labels.Whole)
		if labels.Aspects != nil {
			named = append(named, labels)
		}
	}
	count(first)
	for _, o := range others.all() {
		count(o)
	}
	if b.Raters == 0 { // all are withdrawn
		b.Sequence = now.sequence
	}
	b.Labels.Whole = whole.majority()
	if len(named) > 0 {
		b.voteOnAspects(named, whole, how.aspects)
	}
	b.decide(how.aspects, whole.tied())
	if !b.Disputed && !b.Unlabeled {
		b.Sender = x.decisive(b, how.counted, how)
	}
	return b
}

// voteOnAspects sets the labels of the aspects that raters named. whole is the vote
// of all raters on the whole response.
func (b *Bag) voteOnAspects(named []Labels, whole vote, aspects []string) {
	if b.Raters == 1 {
		b.Labels.Aspects = named[0].Aspects
		return
	}
	votes := map[string]vote{}
	for _, labels := range named {
		for aspect := range labels.Aspects {
			votes[aspect] = vote{}
		}
	}
	b.Labels.Aspects = make(map[string]bag.Label, len(votes))
	for aspect, v := range votes {
		rest := whole // of the raters who did not name the aspect
		for _, labels := range named {
			label, is := labels.Aspects[aspect]
			v.add(label)
			if is && labels.Whole != "" {
				rest.all--
				if labels.Whole == bag.Violation {
					rest.violations--
				}
			}
		}
		switch {
		case !slices.Contains(aspects, aspect):
		case len(aspects) == 1:
			v = vote{v.violations + rest.violations, v.all + rest.all}
		case whole.majority() == bag.Compliant:
			v.all += rest.all - rest.violations
		}
		if v.tied() {
			b.Tied = append(b.Tied, aspect)
		} else {
			b.Labels.Aspects[aspect] = v.majority()
		}
	}
	slices.Sort(b.Tied)
	if slices.ContainsFunc(b.Tied, func(aspect string) bool {
		return slices.Contains(aspects, aspect) && b.Labels.For(aspect, len(aspects)) != ""
	}) {
		b.Labels.Whole = ""
	}
}

// decide sets the verdict on a response. wholeTied reports a tied vote on the whole
// response.
func (b *Bag) decide(aspects []string, wholeTied bool) {
	judged := false
	if len(aspects) > 1 && b.Labels.Whole != "" {
		judged, b.Violation = true, b.Labels.Whole == bag.Violation
	} else {
		for _, aspect := range aspects {
			label := b.Labels.For(aspect, len(aspects))
			judged = judged || label != ""
			b.Violation = b.Violation || label == bag.Violation
		}
	}
	if !judged {
		b.Disputed = wholeTied || slices.ContainsFunc(b.Tied, func(aspect string) bool { return slices.Contains(aspects, aspect) })
		b.Unlabeled = !b.Disputed
	}
}
