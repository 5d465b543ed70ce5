package feedback

import (
	"cmp"
	"slices"
	"sort"

	"assay/rewardmodel/bag"
)

// The senders of labels that came without a token, as Record.By has them. They, those
// over NATS, whose By is empty, and those of records without a sender count as one
// sender: a client without a token has no identity that it could not change.
const (
	ByLoopback  = "loopback"
	ByAnonymous = "anonymous"
)

// SenderOf returns the sender of a record, from the name of the caller; zero: without a token.
func SenderOf(by string) Hash {
	if by == "" || by == ByLoopback || by == ByAnonymous {
		return Hash{}
	}
	return HashOf(by)
}

// decisive returns the sender of the label that decided a response. Of the labels
// that equal those of the majority, in the order in which they were stored, it is the
// first with which they are more than half of all, or the last if they never are. So a
// response is never that of a sender whose labels the majority contradicts. It is zero,
// as of labels without a token, if none equals them, because raters named different
// aspects. counted are the labels in force, whose order it changes.
func (x *Index) decisive(b Bag, counted []record, how *resolver) Hash {
	if len(counted) == 1 {
		return counted[0].sender
	}
	majority, all := b.Labels.combination(how.aspects), len(counted)
	equal := slices.DeleteFunc(counted, func(r record) bool {
		return x.labelsOf(r, how).combination(how.aspects) != majority
	})
	if len(equal) == 0 {
		return Hash{}
	}
	slices.SortFunc(equal, func(a, b record) int { return cmp.Compare(a.sequence, b.sequence) })
	return equal[min(all/2, len(equal)-1)].sender
}

// combination is the labels that a model with the given aspects learns from.
func (l Labels) combination(aspects []string) (s labelSet) {
	if len(aspects) == 1 {
		s.put(wholeBit, l.For(aspects[0], 1))
		return s
	}
	s.put(wholeBit, l.Whole)
	for i, name := range aspects {
		s.put(i, l.Aspects[name])
	}
	return s
}

// EqualFor reports whether a model with the given aspects learns the same from both;
// no aspects: a single unnamed one.
func (l Labels) EqualFor(other Labels, aspects []string) bool {
	aspects = aspectsOr(aspects)
	return l.combination(aspects) == other.combination(aspects)
}

// LimitSenders returns at most most bags, of which no sender has more than a share in
// (0,1] of those with the same labels: the first ones of each sender, in order. With
// one aspect, the labels are violation and compliant. With several, they are the
// combination of the labels of all aspects, so the share also holds for each label of
// each aspect. With a share of 1 these are the first bags. It takes time linear in the
// number of bags.
func LimitSenders(bags []Bag, share float64, most int, aspects ...string) []Bag {
	if share >= 1 {
		return bags[:min(len(bags), most)]
	}
	aspects = aspectsOr(aspects)
	all := pools{}
	for _, b := range bags {
		all.of(b, aspects).count(b, 0)
	}
	for _, p := range all {
		p.limit = p.maxPerSender(share)
	}
	// A lower limit for all pools also satisfies the share; only the first bags of those
	// within it may not.
	common := sort.Search(len(bags), func(less int) bool {
		kept := 0
		for _, p := range all {
			kept += p.kept(min(p.limit, less+1))
		}
		return kept > most
	})
	return slices.DeleteFunc(slices.Clone(bags), func(b Bag) bool {
		p := all.of(b, aspects)
		p.sender(b).taken++
		return p.sender(b).taken > min(p.limit, common)
	})
}

// pools counts bags by side and labels.
type pools map[poolKey]*pool

type poolKey struct {
	labels  labelSet
	heldOut bool
}

// pool counts the bags of a side with the same labels.
type pool struct {
	first   Bag // one of them
	senders map[Hash]*senderCount
	limit   int // of bags per sender
}

type senderCount struct{ bags, fresh, taken int }

func (all pools) of(b Bag, aspects []string) *pool {
	key := poolKey{b.Labels.combination(aspects), b.HeldOut}
	p := all[key]
	if p == nil {
		p = &pool{first: b, senders: map[Hash]*senderCount{}}
		all[key] = p
	}
	return p
}

func (p *pool) sender(b Bag) *senderCount {
	c := p.senders[b.Sender]
	if c == nil {
		c = &senderCount{}
		p.senders[b.Sender] = c
	}
	return c
}

// count adds a bag, which is new if its sequence is greater than since.
func (p *pool) count(b Bag, since uint64) {
	c := p.sender(b)
	c.bags++
	if b.Sequence > since {
		c.fresh++
	}
}

// maxPerSender returns the maximum number of bags per sender with which no sender has
// more than a share of those that are kept: 0 if there are fewer than 1/share senders.
func (p *pool) maxPerSender(share float64) int {
	const rounding = 1 + 1e-9 // a share of 1/n permits n equal senders
	most := 0
	for _, c := range p.senders {
		most = max(most, c.bags)
	}
	// What is kept grows ever more slowly than the limit: no limit above one that
	// violates the share satisfies it.
	return sort.Search(most, func(less int) bool {
		return float64(less+1) > share*float64(p.kept(less+1))*rounding
	})
}

// kept is the number of bags that remain with a limit per sender.
func (p *pool) kept(limit int) (n int) {
	for _, c := range p.senders {
		n += min(c.bags, limit)
	}
	return n
}

// omitted counts the bags, and the new ones among them, that exceed a share. Of each
// sender, the new ones are kept first.
func (p *pool) omitted(share float64) (bags, fresh int) {
	limit := p.maxPerSender(share)
	for _, c := range p.senders {
		bags += max(0, c.bags-limit)
		fresh += max(0, c.fresh-limit)
	}
	return bags, fresh
}

// omit moves bags with a label, some of which are new, to the omitted ones.
func (c *AspectStats) omit(l bag.Label, heldOut bool, bags, fresh int) {
	violation := 0
	if l == bag.Violation {
		violation = 1
	}
	c.OverShare += bags
	c.OverShareViolations += violation * bags
	if heldOut {
		c.HeldOut -= bags
		c.HeldOutViolations -= violation * bags
		return
	}
	c.Bags -= bags
	c.Violations -= violation * bags
	c.New.Bags -= fresh
	c.New.Violations -= violation * fresh
}
