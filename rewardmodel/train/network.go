package train

import (
	"cmp"
	"context"
	"slices"

	"assay/rewardmodel"
)

// scoringBatch is how many sequences are scored at once.
const scoringBatch = 256

// Network scores the bags of Data with a learner in evaluation mode.
type Network struct {
	Data *Data

	ctx     context.Context
	learner trainee
}

// Score is the result of a trained method for one bag, as margins: a larger one is more anomalous, and 0 is undecided.
type Score struct {
	Bag       float64
	Instances []float64 // nil if the method scores only whole bags
}

// margins are the scores of the instances, as the service has them.
func (s Score) margins() []float32 {
	out := make([]float32, len(s.Instances))
	for k, m := range s.Instances {
		out[k] = float32(m)
	}
	return out
}

// byLargest reports whether bags have the margin of their most anomalous instance, as those of mil-topk do not.
func byLargest(scores []Score) bool {
	return !slices.ContainsFunc(scores, func(s Score) bool { return s.Bag != slices.Max(s.Instances) })
}

// Margins returns logit(violation) - logit(compliant) of each instance of the given bags, in their order.
func (n *Network) Margins(bags []int) ([][]float64, error) {
	margins := make([][]float64, len(bags))
	err := n.instances(bags, func(seqs []rewardmodel.Sequence, at []ref) error {
		logits, err := n.learner.logits(seqs)
		for i, z := range logits {
			margins[at[i].bag][at[i].instance] = margin(z)
		}
		return err
	}, func(i, size int) { margins[i] = make([]float64, size) })
	return margins, err
}

// Features returns the features of each instance of the given bags, in their order.
func (n *Network) Features(bags []int) ([][][]float32, error) {
	features := make([][][]float32, len(bags))
	err := n.instances(bags, func(seqs []rewardmodel.Sequence, at []ref) error {
		rows, err := n.learner.features(seqs)
		for i, row := range rows {
			features[at[i].bag][at[i].instance] = row
		}
		return err
	}, func(i, size int) { features[i] = make([][]float32, size) })
	return features, err
}

// WholeMargins returns logit(violation) - logit(compliant) of each of the given bags as one sequence.
func (n *Network) WholeMargins(bags []int) ([]float64, error) {
	margins := make([]float64, len(bags))
	err := n.whole(bags, func(seqs []rewardmodel.Sequence, at []int) error {
		logits, err := n.learner.logits(seqs)
		for i, z := range logits {
			margins[at[i]] = margin(z)
		}
		return err
	})
	return margins, err
}

// WholeFeatures returns the features of each of the given bags as one sequence.
func (n *Network) WholeFeatures(bags []int) ([][]float32, error) {
	features := make([][]float32, len(bags))
	err := n.whole(bags, func(seqs []rewardmodel.Sequence, at []int) error {
		rows, err := n.learner.features(seqs)
		for i, row := range rows {
			features[at[i]] = row
		}
		return err
	})
	return features, err
}

// All returns the indices of all bags.
func (n *Network) All() []int {
	all := make([]int, len(n.Data.Bags))
	for i := range all {
		all[i] = i
	}
	return all
}

// instances calls score with batches of the instances of bags; at has the index in bags and the instance of each
// sequence. Instances of similar length are batched together, which is fastest.
func (n *Network) instances(bags []int, score func(seqs []rewardmodel.Sequence, at []ref) error, size func(i, n int)) error {
	var all []ref
	for i, bag := range bags {
		size(i, len(n.Data.Bags[bag].Instances))
		for k := range n.Data.Bags[bag].Instances {
			all = append(all, ref{i, k})
		}
	}
	seq := func(r ref) rewardmodel.Sequence {
		return n.Data.Bags[bags[r.bag]].sequence(r.instance)
	}
	return inBatches(n.ctx, all, seq, score)
}

func (n *Network) whole(bags []int, score func(seqs []rewardmodel.Sequence, at []int) error) error {
	all := make([]int, len(bags))
	for i := range all {
		all[i] = i
	}
	seq := func(i int) rewardmodel.Sequence {
		return n.Data.Bags[bags[i]].wholeSequence()
	}
	return inBatches(n.ctx, all, seq, score)
}

func inBatches[T any](ctx context.Context, all []T, seq func(T) rewardmodel.Sequence, score func(seqs []rewardmodel.Sequence, at []T) error) error {
	slices.SortStableFunc(all, func(a, b T) int { return cmp.Compare(len(seq(a).IDs), len(seq(b).IDs)) })
	for _, part := range split(len(all), scoringBatch) {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := all[part.start:part.end]
		seqs := make([]rewardmodel.Sequence, len(at))
		for i, a := range at {
			seqs[i] = seq(a)
		}
		if err := score(seqs, at); err != nil {
			return err
		}
	}
	return nil
}

// scoreInstances scores every bag by the largest margin of its utterances, that of the witness, as the service does.
func scoreInstances(n *Network) ([]Score, error) {
	margins, err := n.Margins(n.All())
	if err != nil {
		return nil, err
	}
	scores := make([]Score, len(margins))
	for i, m := range margins {
		if n.Data.Bags[i].ReadsWhole {
			whole := m[len(m)-1]
			m = m[:len(m)-1]
			if witness, raised := rewardmodel.RaisedBy(whole, m); raised {
				m[witness] = whole
			}
		}
		scores[i] = Score{Bag: slices.Max(m), Instances: m}
	}
	return scores, nil
}
