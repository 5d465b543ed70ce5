package reproduce

import (
	"assay/lab/paper"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/eval"
	"assay/rewardmodel/logistic"
	"assay/rewardmodel/train"
)

// Measure returns the bag metrics of scores, and the instance metrics if the method scores instances.
func Measure(d *train.Data, scores []train.Score, threshold float64) (map[string]float64, error) {
	metrics, err := paper.Measure(bagScores(d, scores), threshold)
	if err != nil {
		return nil, err
	}
	byInstance := make([]eval.BagScores, len(scores))
	for i, b := range d.Bags {
		if scores[i].Instances == nil {
			return metrics, nil
		}
		byInstance[i] = eval.BagScores{Label: label(b), Gold: b.Gold}
		for _, m := range scores[i].Instances {
			byInstance[i].Violations = append(byInstance[i].Violations, logistic.Sigmoid(m))
		}
	}
	more, err := eval.Evaluate(byInstance, threshold, eval.Bootstrap{})
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"witness_hit1", "instance_auroc", "instance_auroc_mixed"} {
		if value, ok := more.Metrics[name]; ok {
			metrics[name] = value
		}
	}
	return metrics, nil
}

func bagScores(d *train.Data, scores []train.Score) []eval.BagScores {
	out := make([]eval.BagScores, len(scores))
	for i, b := range d.Bags {
		out[i] = eval.BagScores{Label: label(b), Violations: []float64{logistic.Sigmoid(scores[i].Bag)}}
	}
	return out
}

func label(b train.Bag) bag.Label {
	if b.Violation {
		return bag.Violation
	}
	return bag.Compliant
}

func count(d *train.Data) (violation, compliant, instances int) {
	violation, compliant, unlabeled, normal := d.Counts()
	return violation, compliant, unlabeled + normal
}
