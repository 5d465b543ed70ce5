package train

// Loss maps the logits of a mini-batch (violation first) to the value of the loss and its gradient with respect to
// each logit. Weights inside a loss that depend on the logits are constants for the gradient.
type Loss func(logits [][2]float32) (value float64, grad [][2]float32)

// Learner is a network in training. Sequences are token ids with their special tokens.
type Learner interface {
	// Step takes one optimizer step with learning rate lr on a mini-batch and returns the value of the loss.
	Step(batch [][]int32, lr float64, loss Loss) (float64, error)
	// Logits scores sequences with the current weights, in evaluation mode.
	Logits(batch [][]int32) ([][2]float32, error)
	// SaveState writes the weights and the optimizer's state to a new file, LoadState takes them up again, so that
	// training goes on as if it had not stopped.
	SaveState(file string) error
	LoadState(file string) error
}

// Bag is one labelled response as a learner sees it.
type Bag struct {
	Violation bool
	Instances [][]int32 // token ids with special tokens, one sequence an instance
}

// Data is what a run trains on.
type Data struct {
	Bags []Bag
}

// Counts returns the number of violating and compliant bags, and of their instances: |U_micro| and |P_micro|.
func (d *Data) Counts() (violating, compliant, unlabelled, normal int) {
	for _, b := range d.Bags {
		if b.Violation {
			violating++
			unlabelled += len(b.Instances)
		} else {
			compliant++
			normal += len(b.Instances)
		}
	}
	return violating, compliant, unlabelled, normal
}

// sigmas estimates the imbalances of the paper from bags of unequal length: sigma_micro, normal instances for each
// anomalous one inside a violating bag, as the mean length less one; sigma_macro, compliant bags for each violating one.
func (d *Data) sigmas() (micro, macro float64) {
	violating, compliant, unlabelled, _ := d.Counts()
	return float64(unlabelled)/float64(violating) - 1, float64(compliant) / float64(violating)
}

// ref points at an instance of Data.
type ref struct{ bag, instance int }
