package train

import "math/rand/v2"

// learnBag returns the loss of one bag times scale, and adds its gradients to those of the head and to grads, those of
// the features.
type learnBag func(features [][]float64, violation bool, scale float64, grads [][]float64) float64

// bagSteps is the number of mini-batches of whole bags of an epoch: exact if all bags have the same length, otherwise it
// varies a little with their order.
func bagSteps(e *Epoch) int { return len(e.bagBatches(rand.New(rand.NewPCG(0, 0)))) }

// epochOfBags trains the network and a head with the mean loss of mini-batches of whole bags.
func epochOfBags(e *Epoch, h *head, learn learnBag) error {
	for _, bags := range e.bagBatches(e.RNG) {
		batch, starts := e.members(bags)
		loss := func(features [][]float32, lr float64) (float64, [][]float32) {
			value, grads := lossOfBags(e, h, learn, bags, starts, features)
			h.adam(lr)
			return value, grads
		}
		if err := e.stepFeatures(e.instancesOf(batch), loss); err != nil {
			return err
		}
	}
	return nil
}

// lossOfBags also computes the gradients of the head, in its blocks; features[starts[i]:starts[i+1]] are those of
// bags[i].
func lossOfBags(e *Epoch, h *head, learn learnBag, bags, starts []int, features [][]float32) (float64, [][]float32) {
	h.clear()
	rows, grads := wide(features), zeros(len(features), h.width)
	var total float64
	for i, bag := range bags {
		from, to := starts[i], starts[i+1]
		total += learn(rows[from:to], e.Data.Bags[bag].Violation, 1/float64(len(bags)), grads[from:to])
	}
	return total, narrow(grads)
}

// scoreByFeatures scores every bag of n by the features of its instances.
func scoreByFeatures(n *Network, h *head, score func(features [][]float64) Score) ([]Score, error) {
	if h.blocks == nil {
		return nil, ErrUntrained
	}
	features, err := n.Features(n.All())
	if err != nil {
		return nil, err
	}
	scores := make([]Score, len(features))
	for i, rows := range features {
		scores[i] = score(wide(rows))
	}
	return scores, nil
}
