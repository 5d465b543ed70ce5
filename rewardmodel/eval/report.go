package eval

import "github.com/go-json-experiment/json"

// Report has metrics by name, each in [0,1]:
//
//	avg_acc                            mean of the recalls of both classes
//	recall_violation, recall_compliant
//	f1_violation, f1_compliant
//	bag_auroc, bag_auprc               ranking of bags
//	instance_auroc                     ranking of the instances of all bags with gold marks
//	instance_auroc_mixed               the same over violations with anomalous and normal instances
//	witness_hit1                       share of those violations whose witness is anomalous
//	span_iou, span_f1                  overlap of the witness with the gold spans, in characters:
//	                                   |both| / |either| and F1, means over the violations with spans
//	span_iou_best                      the span_iou of a model that always flags the best instance:
//	                                   how well instances can match the gold spans at all
//	ece, brier                         calibration of the bag's score
//	comparison_accuracy                share of the pairs of a violation and a compliant bag that are ranked
//	                                   right, mean over the comparisons; the other metrics leave these bags out
//
// Undefined ones are absent. The span metrics ignore the threshold: the
// witness is compared whether or not it is above. SemEval-2021 Task 5 defines
// the F1 (Pavlopoulos et al. 2021), there for any set of characters.
type Report struct {
	Metrics   map[string]float64
	Intervals map[string][2]float64 // [low, high] of a metric; nil if none were requested
}

// MarshalJSON returns one flat object of the metrics, with the intervals, if
// any, under "intervals". Names are in alphabetical order.
func (r Report) MarshalJSON() ([]byte, error) {
	flat := make(map[string]any, len(r.Metrics)+1)
	for name, value := range r.Metrics {
		flat[name] = value
	}
	if r.Intervals != nil {
		flat["intervals"] = r.Intervals
	}
	return json.Marshal(flat, json.Deterministic(true))
}
