package train

// pseudoSteps is the number of mini-batches of pseudoStage.
func pseudoSteps(e *Epoch) int { return batchCount(2*len(e.violating), e.Batch) }

// pseudoStage trains on the pseudo labels from scores (section "Pseudo Labels Based on Macro Information"), with
// the mean loss of a mini-batch times lambda; 0 means 1.
func pseudoStage(e *Epoch, scores [][]float64, kind LossKind, lambda float64) error {
	if lambda == 0 {
		lambda = 1
	}
	e.stage("pseudo-labels")
	refs, labels := pseudoLabels(e, scores)
	for _, part := range split(len(refs), e.Batch) {
		if err := e.step(e.instancesOf(refs[part.start:part.end]), plain(kind, labels[part.start:part.end], lambda)); err != nil {
			return err
		}
	}
	return nil
}

// pseudoLabels returns, in random order, the witness of every violating bag as a violation and its least anomalous
// instance as compliant. For a bag of one instance, a random instance of a compliant bag
// replaces the latter, which keeps the set balanced, as the paper requires.
func pseudoLabels(e *Epoch, scores [][]float64) ([]ref, []bool) {
	type labeled struct {
		ref
		violation bool
	}
	var all []labeled
	for _, bag := range e.violating {
		witness, least := 0, 0
		for k, s := range scores[bag] {
			if s > scores[bag][witness] {
				witness = k
			}
			if s < scores[bag][least] {
				least = k
			}
		}
		all = append(all, labeled{ref{bag, witness}, true})
		switch {
		case len(scores[bag]) > 1:
			all = append(all, labeled{ref{bag, least}, false})
		case len(e.compliant) > 0:
			other := e.compliant[e.RNG.IntN(len(e.compliant))]
			all = append(all, labeled{ref{other, e.RNG.IntN(len(e.Data.Bags[other].Instances))}, false})
		}
	}
	e.RNG.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	refs, labels := make([]ref, len(all)), make([]bool, len(all))
	for i, l := range all {
		refs[i], labels[i] = l.ref, l.violation
	}
	return refs, labels
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
