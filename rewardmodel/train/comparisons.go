package train

import (
	"math/rand/v2"

	"assay/rewardmodel"
	"assay/rewardmodel/logistic"
)

// Comparison is bags whose labels hold only among themselves: each violating one is worse than each compliant one, and
// neither may violate, or both. A pair of responses of which one is preferred is a comparison, and so is a set that labels
// one of several rules.
type Comparison []Bag

// DefaultLambdaComparison is the coefficient of the loss of comparisons.
const DefaultLambdaComparison = 1

// comparedAtOnce is how many bags of a comparison are compared with each other.
const comparedAtOnce = 8

// comparing are the comparisons of an epoch, in parts of at most about comparedAtOnce bags with both labels. Each step takes
// its share of them in addition to its mini-batch, so that what they teach is balanced by what the labels do.
type comparing struct {
	parts       []Comparison
	taken, step int
	steps       int // of the epoch
	lambda      float64
}

// compareWith divides the comparisons among the given number of steps, at random.
func (d *Data) compareWith(lambda float64, steps int, rng *rand.Rand) comparing {
	c := comparing{steps: steps, lambda: lambda}
	if lambda == 0 {
		return c
	}
	for _, bags := range d.Comparisons {
		c.parts = append(c.parts, bags.parts(rng)...)
	}
	rng.Shuffle(len(c.parts), func(i, j int) { c.parts[i], c.parts[j] = c.parts[j], c.parts[i] })
	return c
}

// parts divides a comparison at random into parts that have both labels.
func (c Comparison) parts(rng *rand.Rand) []Comparison {
	var violating, compliant Comparison
	for _, i := range rng.Perm(len(c)) {
		if c[i].Violation {
			violating = append(violating, c[i])
		} else {
			compliant = append(compliant, c[i])
		}
	}
	n := min(batchCount(len(c), comparedAtOnce), len(violating), len(compliant))
	parts := make([]Comparison, n)
	for i := range parts {
		for _, of := range []Comparison{violating, compliant} {
			parts[i] = append(parts[i], of[i*len(of)/n:(i+1)*len(of)/n]...)
		}
	}
	return parts
}

// next returns the parts of the next step. A step beyond those that were expected has none.
func (c *comparing) next() []Comparison {
	if len(c.parts) == 0 || c.step == c.steps {
		return nil
	}
	c.step++
	from := c.taken
	c.taken = c.step * len(c.parts) / c.steps
	return c.parts[from:c.taken]
}

// join appends the comparisons of the next step to a mini-batch and their loss to its own.
func (c *comparing) join(batch []rewardmodel.Sequence, loss aspectLoss) ([]rewardmodel.Sequence, aspectLoss) {
	parts := c.next()
	if len(parts) == 0 {
		return batch, loss
	}
	own := len(batch)
	batch = batch[:own:own]
	for _, part := range parts {
		for _, b := range part {
			for k := range b.Instances {
				batch = append(batch, b.sequence(k))
			}
		}
	}
	return batch, func(logits [][2]float32) (float64, [][2]float32) {
		value, grads := loss(logits[:own])
		more, toAdd := comparisonLoss(parts, logits[own:])
		for _, g := range toAdd {
			grads = append(grads, [2]float32{float32(c.lambda) * g[0], float32(c.lambda) * g[1]})
		}
		return value + c.lambda*more, grads
	}
}

// comparisonLoss is the mean, over the parts, of the mean over their pairs of a violating and a compliant bag, of the
// logistic loss of the difference of the margins of their witnesses: softplus(compliant - violating), as in RankNet (Burges
// et al., 2005) and as reward models are trained on preferences (Ouyang et al., 2022, equation 1). logits are those of the
// instances, bag by bag.
func comparisonLoss(parts []Comparison, logits [][2]float32) (float64, [][2]float32) {
	var total float64
	grads := make([][2]float32, len(logits))
	at := 0
	for _, part := range parts {
		witness := make([]int, len(part))
		pairs := [2]int{}
		for i, b := range part {
			witness[i] = at
			for k := range b.Instances {
				if margin(logits[at+k]) > margin(logits[witness[i]]) {
					witness[i] = at + k
				}
			}
			at += len(b.Instances)
			if b.Violation {
				pairs[0]++
			} else {
				pairs[1]++
			}
		}
		weight := 1 / float64(pairs[0]*pairs[1]*len(parts))
		for i, worse := range part {
			for j, better := range part {
				if !worse.Violation || better.Violation {
					continue
				}
				apart := margin(logits[witness[i]]) - margin(logits[witness[j]])
				total += weight * logistic.Softplus(-apart)
				g := float32(weight * logistic.Sigmoid(-apart))
				grads[witness[i]][0] -= g
				grads[witness[i]][1] += g
				grads[witness[j]][0] += g
				grads[witness[j]][1] -= g
			}
		}
	}
	return total, grads
}
