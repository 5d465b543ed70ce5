package paper

import (
	"context"
	"time"
)

// Metrics by the names of eval.Report that the report shows.
const (
	avgAcc          = "avg_acc"
	f1Compliant     = "f1_compliant" // the paper's F1: its authors' code takes the normal class as positive
	f1Violation     = "f1_violation"
	recallCompliant = "recall_compliant"
	recallViolation = "recall_violation"
	bagAUROC        = "bag_auroc"
	witnessHit1     = "witness_hit1"
)

// BestAvgAcc is the name of an upper bound: AvgAcc at the best threshold on the test bags themselves. The other metrics have the names of eval.Report.
const BestAvgAcc = "best_avg_acc"

// RunFunc does one run and returns its record; the runner fills in the spec, the key, the time, the machine and the
// version, and the wall seconds where they are 0. progress reports how many of the total steps are done, the stage and
// its mean loss so far; it may be called often and from one goroutine at a time. RunFunc is called from several
// goroutines concurrently when the runner has several workers.
type RunFunc func(ctx context.Context, s Spec, progress func(done, total int, stage string, loss float64)) (Record, error)

// Record is the result of one run: one line of the results file.
type Record struct {
	Key     string             `json:"key"` // Spec.Key, so that the file can be searched
	Spec    Spec               `json:"spec"`
	Metrics map[string]float64 `json:"metrics"` // in [0,1], by the names of eval.Report, and BestAvgAcc

	Threshold float64 `json:"threshold"` // T in [0,1]: a test bag that scores above is called anomalous
	// AtThreshold holds the decisions of the same trained model with other placements of T, by name ("fixed",
	// "one-per-bag", ...): they need no separate training run.
	AtThreshold    map[string]Decision `json:"at_threshold,omitzero"`
	Loss           []LossPoint         `json:"loss,omitzero"`
	Train          Histograms          `json:"train_scores,omitzero"` // of the training bags, after training
	Test           Histograms          `json:"test_scores,omitzero"`
	Counts         Counts              `json:"counts"`
	RandomBackbone bool                `json:"random_backbone,omitzero"` // the backbone was not pre-trained: the run shows that the code works
	Note           string              `json:"note,omitzero"`            // remarks for readers
	WeightsOf      string              `json:"weights_of,omitzero"`      // key of the run that trained the weights; empty: the run itself

	WallSeconds   float64   `json:"wall_seconds"`   // training and measuring
	InstanceSpeed float64   `json:"instance_speed"` // training instances per second, forward and backward; 0 unknown
	Date          time.Time `json:"date"`           // of the end of the run, UTC
	Machine       Machine   `json:"machine"`
	Version       string    `json:"version"` // of the program: git describe or the commit
}

// LossPoint is the mean loss of a stage up to a step.
type LossPoint struct {
	Step  int     `json:"step"` // optimizer steps of the whole run
	Stage string  `json:"stage"`
	Loss  float64 `json:"loss"`
}

// Decision holds the metrics of a threshold on the test bags.
type Decision struct {
	Threshold   float64 `json:"threshold"`
	AvgAcc      float64 `json:"avg_acc"`
	F1Violation float64 `json:"f1_violation"`
}

// Histograms counts bags by their score, of each class: HistogramBins bins of equal width over [0,1].
type Histograms struct {
	Violation []int `json:"violation"`
	Compliant []int `json:"compliant"`
}

// IsZero reports whether nothing was counted; the file omits it then.
func (h Histograms) IsZero() bool { return h.Violation == nil && h.Compliant == nil }

// Counts is the size of a run's data.
type Counts struct {
	TrainViolation int `json:"train_violation"` // bags
	TrainCompliant int `json:"train_compliant"`
	TrainInstances int `json:"train_instances"` // of bags of both classes
	TestViolation  int `json:"test_violation"`
	TestCompliant  int `json:"test_compliant"`
	TestInstances  int `json:"test_instances"`
}

// Machine is the hardware of a run.
type Machine struct {
	CPU       string `json:"cpu"`
	Device    string `json:"device,omitzero"` // "cpu" or empty for the CPU, otherwise the accelerator
	Threads   int    `json:"threads,omitzero"`
	Precision string `json:"precision,omitzero"` // dtype of the computation: fp32 or bf16
}
