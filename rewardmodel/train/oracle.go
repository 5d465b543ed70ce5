package train

import "fmt"

// Oracle is supervised training on the labels of instances, which coarse labels do not provide: the upper bound of
// every method that has only the labels of bags.
type Oracle struct{}

// Name is "oracle".
func (Oracle) Name() string { return "oracle" }

// Validate returns nil.
func (Oracle) Validate() error { return nil }

// Threshold is 0.5.
func (Oracle) Threshold() Threshold { return Fixed }

// Score takes the witness of each bag.
func (Oracle) Score(n *Network) ([]Score, error) { return scoreInstances(n) }

// Steps is the number of mini-batches of an epoch.
func (Oracle) Steps(e *Epoch) int { return batchCount(e.instanceCount(), e.Batch) }

// Epoch trains on all instances with their own labels.
func (Oracle) Epoch(e *Epoch) error {
	e.Stage("oracle")
	for _, batch := range e.instanceBatches(e.RNG) {
		labels := make([]bool, len(batch))
		for i, r := range batch {
			gold := e.Data.Bags[r.bag].Gold
			if gold == nil {
				return fmt.Errorf("%w: the oracle needs \"witness\" or \"spans\" in every violating bag", ErrData)
			}
			labels[i] = gold[r.instance]
		}
		if err := e.StepLabeled(e.instancesOf(batch), labels); err != nil {
			return err
		}
	}
	return nil
}
