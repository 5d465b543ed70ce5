package paper

import (
	"math"
	"time"
)

// syntheticRecords returns records of synthetic runs, for tests: three sigmas, several methods, settings and thresholds.
func syntheticRecords() []Record {
	var out []Record
	add := func(s Spec, acc float64) *Record {
		out = append(out, syntheticRecord(s, acc))
		return &out[len(out)-1]
	}
	spec := func(method string, micro int, seed uint64, settings string) Spec {
		extra, err := ParseSettings(settings)
		if err != nil {
			panic(err)
		}
		return Spec{
			Dataset: SST2, SigmaMicro: micro, SigmaMacro: 1, Method: method, Settings: settingsFor(method, extra),
			Backbone: "made-up", Rate: 2e-5, Epochs: 5, Batch: 16, Seed: seed,
		}
	}
	for i, method := range []string{BFGPU, Macro, NNPU + PLADT, Oracle} {
		for j, micro := range []int{2, 4, 6, 8, 10} {
			for seed := range uint64(3) {
				if method == NNPU+PLADT && micro > 4 {
					continue // an incomplete row
				}
				r := add(spec(method, micro, seed, ""), 0.8-0.04*float64(i%3)-0.05*float64(j)+0.01*float64(seed))
				if method == BFGPU {
					r.AtThreshold = map[string]Decision{
						"fixed":       {Threshold: 0.5, AvgAcc: r.Metrics[avgAcc] - 0.1, F1Violation: r.Metrics[avgAcc] - 0.1},
						"one-per-bag": {Threshold: r.Threshold, AvgAcc: r.Metrics[avgAcc], F1Violation: r.Metrics[avgAcc]},
					}
				}
			}
		}
	}
	add(spec(BFGPU, 2, 0, "weights=paper"), 0.83)
	add(spec(BFGPU, 2, 0, withoutLoss), 0.71)
	add(spec(BFGPU, 2, 0, withoutPseudoLabels), 0.77)
	real := spec(BFGPU, 0, 0, "")
	real.Dataset, real.SigmaMacro, real.Bags = IMDBSentences, 0, 1000
	add(real, 0.66).Note = "made up for a test"
	random := spec(BFGPU, 2, 0, "")
	random.Backbone = "tiny-random"
	add(random, 0.5).RandomBackbone = true
	judge := Spec{Dataset: SST2, SigmaMicro: 10, SigmaMacro: 1, Method: "llm:Qwen3"}
	add(judge, 0.7)
	return out
}

func syntheticRecord(s Spec, acc float64) Record {
	r := Record{
		Key: s.Key(), Spec: s, Threshold: 0.9,
		Metrics: map[string]float64{
			avgAcc: acc, f1Compliant: acc - 0.05, BestAvgAcc: acc + 0.02, bagAUROC: acc + 0.05, witnessHit1: acc + 0.01,
			f1Violation: acc, "bag_auprc": acc, "instance_auroc": acc, "ece": 0.1, "brier": 0.2,
		},
		Train:       Histograms{make([]int, HistogramBins), make([]int, HistogramBins)},
		Test:        Histograms{make([]int, HistogramBins), make([]int, HistogramBins)},
		Counts:      Counts{TrainViolation: 171, TrainCompliant: 171, TrainInstances: 1026, TestViolation: 181, TestCompliant: 181, TestInstances: 1086},
		WallSeconds: 120, InstanceSpeed: 40, Date: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
		Machine: Machine{CPU: "made-up processor", Threads: 2, Precision: "fp32"}, Version: "v0",
	}
	for bin := range HistogramBins {
		r.Test.Violation[bin], r.Test.Compliant[bin] = bin/4, (HistogramBins-bin)/4
		r.Train.Violation[bin], r.Train.Compliant[bin] = bin/2, (HistogramBins-bin)/2
	}
	for step := range 40 {
		stage := "bfgpu"
		if s.Method == Macro {
			stage = "macro"
		} else if step%20 >= 14 {
			stage = "pseudo-labels"
		}
		r.Loss = append(r.Loss, LossPoint{Step: 10 * step, Stage: stage, Loss: 0.7 * math.Exp(-float64(step)/20)})
	}
	return r
}
