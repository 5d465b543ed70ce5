package baseline

import (
	"math/rand/v2"
	"slices"

	"assay/rewardmodel"
	"assay/rewardmodel/train"
)

// byLabel returns the indices of the violating and of the compliant bags.
func byLabel(d *train.Data) (violating, compliant []int) {
	for i, b := range d.Bags {
		if b.Violation {
			violating = append(violating, i)
		} else {
			compliant = append(compliant, i)
		}
	}
	return violating, compliant
}

// ref identifies an instance of the bags of an epoch.
type ref struct{ bag, instance int }

// members returns the instances of the given bags, bag by bag.
func members(d *train.Data, bags []int) []ref {
	var all []ref
	for _, bag := range bags {
		for k := range d.Bags[bag].Instances {
			all = append(all, ref{bag, k})
		}
	}
	return all
}

// instanceBatches splits the instances of the given bags into mini-batches of e.Batch in random order.
func instanceBatches(e *train.Epoch, bags []int) [][]ref {
	all := members(e.Data, bags)
	e.RNG.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return slices.Collect(slices.Chunk(all, e.Batch))
}

// instances returns the sequences of a mini-batch of instances.
func instances(e *train.Epoch, batch []ref) []rewardmodel.Sequence {
	seqs := make([]rewardmodel.Sequence, len(batch))
	for i, r := range batch {
		seqs[i] = e.Instance(r.bag, r.instance)
	}
	return seqs
}

// wholes returns the sequences of a mini-batch of whole bags, and whether each violates.
func wholes(e *train.Epoch, bags []int) (seqs []rewardmodel.Sequence, violation []bool) {
	for _, b := range bags {
		seqs, violation = append(seqs, e.Whole(b)), append(violation, e.Data.Bags[b].Violation)
	}
	return seqs, violation
}

// violations returns, for each instance of a mini-batch, whether it is in a violating bag.
func violations(d *train.Data, batch []ref) []bool {
	out := make([]bool, len(batch))
	for i, r := range batch {
		out[i] = d.Bags[r.bag].Violation
	}
	return out
}

// instanceCount is the number of instances of all bags.
func instanceCount(d *train.Data) int {
	_, _, unlabeled, normal := d.Counts()
	return unlabeled + normal
}

// batchCount is the number of mini-batches of n items.
func batchCount(n int, e *train.Epoch) int { return (n + e.Batch - 1) / e.Batch }

// bagSteps is the number of mini-batches of whole bags of an epoch: exact if all bags have the same length, otherwise it
// varies a little with their order.
func bagSteps(e *train.Epoch) int { return len(e.BagBatches(rand.New(rand.NewPCG(0, 0)))) }
