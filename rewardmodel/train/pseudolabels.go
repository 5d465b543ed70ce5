package train

// pseudoSteps is the number of mini-batches of pseudoStage.
func pseudoSteps(e *Epoch) int {
	if e.union != nil {
		return batchCount(len(e.union.epoch.violating), max(e.Batch/2, 1))
	}
	return batchCount(2*len(e.violating), e.Batch)
}

// pseudoStage trains on the pseudo labels from scores (section "Pseudo Labels Based on Macro Information"), with
// the mean loss of a mini-batch times lambda; 0 means 1.
func pseudoStage(e *Epoch, scores [][]float64, kind LossKind, lambda float64) error {
	if lambda == 0 {
		lambda = 1
	}
	e.Stage("pseudo-labels")
	for _, batch := range pseudoBatches(e, scores) {
		refs, labels := make([]ref, len(batch)), make([]bool, len(batch))
		for i, l := range batch {
			refs[i], labels[i] = l.ref, l.violation
		}
		if err := e.step(e.instancesOf(refs), plain(kind, labels, lambda)); err != nil {
			return err
		}
	}
	return nil
}

// pseudoLabel is the label that an instance is trained on.
type pseudoLabel struct {
	ref
	violation bool
}

// pseudoBatches returns mini-batches of the pseudo labels of all violating bags, in random order. With a union they are
// those of its mini-batches of violating bags, and may be empty.
func pseudoBatches(e *Epoch, scores [][]float64) [][]pseudoLabel {
	var batches [][]pseudoLabel
	if e.union != nil {
		for _, bags := range e.union.violatingBatches(e.RNG) {
			var batch []pseudoLabel
			for _, bag := range bags {
				if e.Data.Bags[bag].Violation {
					batch = append(batch, e.pseudoLabels(bag, scores[bag])...)
				}
			}
			batches = append(batches, batch)
		}
		return batches
	}
	var all []pseudoLabel
	for _, bag := range e.violating {
		all = append(all, e.pseudoLabels(bag, scores[bag])...)
	}
	e.RNG.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, part := range split(len(all), e.Batch) {
		batches = append(batches, all[part.start:part.end])
	}
	return batches
}

// pseudoLabels returns the witness of a violating bag as a violation and its least anomalous utterance as compliant. For
// a bag of one instance, a random instance of a compliant bag replaces the latter, which keeps the set balanced, as the
// paper requires.
func (e *Epoch) pseudoLabels(bag int, scores []float64) []pseudoLabel {
	witness, least := 0, 0
	for k, s := range scores {
		if s > scores[witness] {
			witness = k
		}
		if s < scores[least] && k < e.Data.Bags[bag].utterances() {
			least = k
		}
	}
	labels := []pseudoLabel{{ref{bag, witness}, true}}
	switch {
	case len(scores) > 1:
		labels = append(labels, pseudoLabel{ref{bag, least}, false})
	case len(e.compliant) > 0:
		other := e.compliant[e.RNG.IntN(len(e.compliant))]
		labels = append(labels, pseudoLabel{ref{other, e.RNG.IntN(len(e.Data.Bags[other].Instances))}, false})
	}
	return labels
}

// record returns the loss, extended to store the margins of the mini-batch in scores.
func record(scores [][]float64, batch []ref, loss aspectLoss) aspectLoss {
	return func(logits [][2]float32) (float64, [][2]float32) {
		for i, r := range batch {
			scores[r.bag][r.instance] = margin(logits[i])
		}
		return loss(logits)
	}
}

// rescore computes the scores of the violating bags with the current weights.
func (e *Epoch) rescore(scores [][]float64) error {
	margins, err := e.Margins(e.violating)
	for i, bag := range e.violating {
		scores[bag] = margins[i]
	}
	return err
}
