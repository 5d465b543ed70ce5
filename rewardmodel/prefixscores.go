package rewardmodel

import (
	"cmp"
	"math"
	"slices"

	"assay/rewardmodel/logistic"
)

// prefixScores returns the scores of the bags of the first instance, of the first
// two, and so on, as aggregate does for one, in O(n log n) for topk and O(n) for
// the others.
func prefixScores(kind Aggregate, k int, margins []float32) []bagScore {
	out := make([]bagScore, len(margins))
	state := newPrefix(kind, k, margins)
	for i, m := range margins {
		out[i] = state.add(i, bound(m))
	}
	return out
}

// prefix is a bag to which instances are added one by one.
type prefix struct {
	kind      Aggregate
	count     int
	highest   float64 // margin
	normal    float64 // noisy_or: log of the product of 1 - v
	violation float64 // mean: sum of v
	compliant float64 // mean: sum of 1 - v
	largest   topSums // topk
}

func newPrefix(kind Aggregate, k int, margins []float32) *prefix {
	p := &prefix{kind: kind, highest: math.Inf(-1)}
	if kind == AggregateTopK {
		p.largest = newTopSums(k, margins)
	}
	return p
}

func (p *prefix) add(i int, margin float64) bagScore {
	p.count++
	p.highest = max(p.highest, margin)
	p.normal -= logistic.Softplus(margin)
	p.violation += logistic.Sigmoid(margin)
	p.compliant += logistic.Sigmoid(-margin)
	violation, compliant, count := p.violation, p.compliant, p.count
	if p.kind == AggregateTopK {
		violation, compliant, count = p.largest.add(i, margin)
	}
	switch {
	case p.kind == AggregateMax || p.count == 1:
		return bagScore{logistic.Sigmoid(p.highest), p.highest, p.count}
	case p.kind == AggregateNoisyOr:
		v := -math.Expm1(p.normal)
		return bagScore{v, math.Log(v) - p.normal, p.count}
	}
	return bagScore{violation / float64(count), math.Log(violation) - math.Log(compliant), p.count}
}

// topSums sums the k largest of the instances added so far: a binary tree over
// all instances by rank, whose nodes hold the sums of those that were added.
// Nothing is ever subtracted, so that small violations keep their digits.
type topSums struct {
	k      int
	leaves int
	ranks  []int // of each instance; the largest margin has rank 0
	nodes  []topNode
}

type topNode struct {
	violation, compliant float64
	count                int
}

func newTopSums(k int, margins []float32) topSums {
	order := make([]int, len(margins))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(margins[b], margins[a]) })
	t := topSums{k: k, leaves: 1, ranks: make([]int, len(margins))}
	for rank, i := range order {
		t.ranks[i] = rank
	}
	for t.leaves < len(margins) {
		t.leaves *= 2
	}
	t.nodes = make([]topNode, 2*t.leaves)
	return t
}

// add adds instance i and returns the sums of the k largest, and how many they are.
func (t topSums) add(i int, margin float64) (violation, compliant float64, count int) {
	at := t.leaves + t.ranks[i]
	t.nodes[at] = topNode{logistic.Sigmoid(margin), logistic.Sigmoid(-margin), 1}
	for at /= 2; at > 0; at /= 2 {
		left, right := t.nodes[2*at], t.nodes[2*at+1]
		t.nodes[at] = topNode{left.violation + right.violation, left.compliant + right.compliant, left.count + right.count}
	}
	left := t.k
	for at = 1; ; {
		n := t.nodes[at]
		if n.count <= left {
			return violation + n.violation, compliant + n.compliant, count + n.count
		}
		at *= 2
		if larger := t.nodes[at]; larger.count <= left {
			violation, compliant, count = violation+larger.violation, compliant+larger.compliant, count+larger.count
			left -= larger.count
			at++
		}
		if left == 0 {
			return violation, compliant, count
		}
	}
}
