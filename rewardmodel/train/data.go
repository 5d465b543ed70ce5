package train

import (
	"math/rand/v2"

	"assay/rewardmodel"
)

// Bag is one labeled response, tokenized.
type Bag struct {
	Violation bool
	Instances [][]int32 // token ids with special tokens, one sequence per instance
	// ReadsWhole reports that the last instance is the response as a whole, and the others are its utterances: the score of
	// the most anomalous one is at least that of the whole (rewardmodel.ScorerConfig.WholeCharacters).
	ReadsWhole bool
	Whole      []int32   // the whole response as one sequence; only macro-level methods read it
	Contexts   [][]int32 // what each instance answers, for a learner that reads it; an element may be nil, and nil: none
	Gold       []bool    // whether each instance is anomalous; only the Oracle reads it
}

// context is what an instance answers, or nil.
func (b *Bag) context(instance int) []int32 {
	if b.Contexts == nil {
		return nil
	}
	return b.Contexts[instance]
}

// utterances is the number of instances that are not the whole response.
func (b *Bag) utterances() int {
	if b.ReadsWhole {
		return len(b.Instances) - 1
	}
	return len(b.Instances)
}

// sequence is an instance with what it answers.
func (b *Bag) sequence(instance int) rewardmodel.Sequence {
	return rewardmodel.Sequence{IDs: b.Instances[instance], Context: b.context(instance)}
}

// wholeSequence is the bag as one sequence, with what its first instance answers.
func (b *Bag) wholeSequence() rewardmodel.Sequence {
	return rewardmodel.Sequence{IDs: b.Whole, Context: b.context(0)}
}

// Data is the bags that a run trains on, or that a trained network scores.
type Data struct {
	Bags        []Bag
	Comparisons []Comparison // each with both labels; they are trained on, but fit no threshold
}

// Counts returns the number of violating and compliant bags, and of their instances: |U_micro| and |P_micro|.
func (d *Data) Counts() (violating, compliant, unlabeled, normal int) {
	for _, b := range d.Bags {
		if b.Violation {
			violating++
			unlabeled += len(b.Instances)
		} else {
			compliant++
			normal += len(b.Instances)
		}
	}
	return violating, compliant, unlabeled, normal
}

// sigmas estimates the imbalances of the paper from bags of unequal length: sigma_micro, the normal instances per
// anomalous one in a violating bag, as the mean length minus one; sigma_macro, the compliant bags per violating one. Both
// are 0 without violating bags.
func (d *Data) sigmas() (micro, macro float64) {
	violating, compliant, _, _ := d.Counts()
	if violating == 0 {
		return 0, 0
	}
	unlabeled := 0
	for _, b := range d.Bags {
		if b.Violation {
			unlabeled += b.utterances()
		}
	}
	return float64(unlabeled)/float64(violating) - 1, float64(compliant) / float64(violating)
}

// holdOut splits off a share of the bags of each label, at random but reproducibly by seed. decided has the bags of other
// aspects, by their first sequence, and whether they were split off: such a bag is on the same side, since what is
// learned of it for one aspect moves its scores for all. Those of d are added.
func (d *Data) holdOut(share float64, seed uint64, decided map[sameSequence]bool) (rest, held *Data) {
	rng := rand.New(rand.NewPCG(seed, 0xf01d))
	out := make([]bool, len(d.Bags))
	for _, label := range []bool{true, false} {
		var members []int
		total, taken := 0, 0
		for i, b := range d.Bags {
			if b.Violation != label {
				continue
			}
			total++
			if was, known := decided[identity(b.sequence(0))]; !known {
				members = append(members, i)
			} else if out[i] = was; was {
				taken++
			}
		}
		rng.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		for _, i := range members[:min(max(int(share*float64(total))-taken, 0), len(members))] {
			out[i] = true
		}
	}
	for i, b := range d.Bags {
		decided[identity(b.sequence(0))] = out[i]
	}
	rest, held = &Data{Comparisons: d.Comparisons}, &Data{}
	for i, b := range d.Bags {
		if out[i] {
			held.Bags = append(held.Bags, b)
		} else {
			rest.Bags = append(rest.Bags, b)
		}
	}
	return rest, held
}

// ref identifies an instance of Data.
type ref struct{ bag, instance int }
