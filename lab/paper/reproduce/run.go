package reproduce

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"

	"assay/lab/bench"
	"assay/lab/paper"
	"assay/lab/paper/baseline"
	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/encoder"
	"assay/rewardmodel/logistic"
	"assay/rewardmodel/tokenizer"
	"assay/rewardmodel/train"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

// run trains and evaluates a run of the paper. It reports the progress to report.
func (j job) run(ctx context.Context, log zerolog.Logger, report func(event)) (paper.Record, error) {
	name, flags, err := j.settings()
	if err != nil {
		return paper.Record{}, err
	}
	method, err := methodOf(name, flags)
	if err != nil {
		return paper.Record{}, err
	}
	trainBags, testBags, err := j.Spec.MakeBags(j.Data)
	if err != nil {
		return paper.Record{}, err
	}
	base, err := checkpoint.Open(j.Backbone)
	if err != nil {
		return paper.Record{}, err
	}
	defer base.Close()
	tok, err := tokenizer.Load(j.Backbone)
	if err != nil {
		return paper.Record{}, err
	}
	data, truncated, err := localmodel.TokenizeBags(ctx, trainBags, tok, base.MaxLength())
	if err != nil {
		return paper.Record{}, err
	}
	test, truncatedTest, err := localmodel.TokenizeBags(ctx, testBags, tok, base.MaxLength())
	if err != nil {
		return paper.Record{}, err
	}

	device, err := j.Compute.Compute().Runtime()
	if err != nil {
		return paper.Record{}, err
	}
	defer device.Close()
	learner, err := device.NewLearner(base, encoder.LearnerOptions{Precision: encoder.Precision(j.Compute.Precision), Seed: j.Spec.Seed})
	if err != nil {
		return paper.Record{}, err
	}
	timed := &timedLearner{Learner: learner}
	var curve paper.LossCurve
	began := time.Now()
	result, err := train.Run(ctx, timed, data, train.Config{
		Method: method, Epochs: j.Spec.Epochs, Batch: j.Spec.Batch, Rate: j.Spec.Rate, Seed: j.Spec.Seed,
		Threshold: flags.ThresholdOf(method), Fold: flags.Fold, SigmaMicro: flags.SigmaMicro, SigmaMacro: flags.SigmaMacro,
		Report: func(p train.Progress) {
			curve.Add(p.Step, p.Stage, p.Loss)
			report(event{Done: p.Step, Total: p.Steps, Stage: p.Stage, Loss: p.Loss})
		},
	})
	if err != nil {
		return paper.Record{}, err
	}
	scores, err := train.ScoreBags(ctx, learner, 0, test, method)
	if err != nil {
		return paper.Record{}, err
	}
	record := paper.Record{
		Threshold: logistic.Sigmoid(result.Threshold), Loss: curve.Points(), InstanceSpeed: timed.speed(),
		Train: paper.NewHistograms(bagScores(result.FittedOn, result.Scores)), Test: paper.NewHistograms(bagScores(test, scores)),
		RandomBackbone: strings.HasPrefix(j.Spec.Backbone, "random"), WallSeconds: time.Since(began).Seconds(),
		Machine: paper.Machine{CPU: cpuModel(), Threads: j.Compute.Threads, Precision: string(learner.Precision()), Device: device.Device()},
	}
	if scores[0].Instances == nil && truncated+truncatedTest > 0 { // the method reads bags as one sequence
		record.Note = fmt.Sprintf("%d training and %d test bags were longer than the model and truncated", truncated, truncatedTest)
	}
	if record.Metrics, err = Measure(test, scores, record.Threshold); err != nil {
		return paper.Record{}, err
	}
	c := &record.Counts
	c.TrainViolation, c.TrainCompliant, c.TrainInstances = count(data)
	c.TestViolation, c.TestCompliant, c.TestInstances = count(test)
	record.AtThreshold = map[string]paper.Decision{}
	for _, kind := range train.PlacedKinds() {
		at, err := kind.Place(result.FittedOn, result.Scores, result.SigmaMicro, result.SigmaMacro)
		if err != nil {
			return paper.Record{}, err
		}
		metrics, err := Measure(test, scores, logistic.Sigmoid(at))
		if err != nil {
			return paper.Record{}, err
		}
		record.AtThreshold[string(kind)] = paper.Decision{
			Threshold: logistic.Sigmoid(at), AvgAcc: metrics["avg_acc"], F1Violation: metrics["f1_violation"],
		}
	}
	return record, nil
}

// methodOf builds the named method: one that can be served, with its settings, or another one.
func methodOf(name string, flags localmodel.MethodFlags) (train.Method, error) {
	if slices.Contains(baseline.Methods(), name) {
		return baseline.New(name)
	}
	return flags.Method(name)
}

// settings parses the settings of a spec as the flags of the same names.
func (j job) settings() (method string, flags localmodel.MethodFlags, err error) {
	method, pladt := strings.CutSuffix(j.Spec.Method, paper.PLADT)
	args := []string{}
	if pladt {
		args = append(args, "--pseudo-labels=true")
	}
	for name, value := range j.Spec.Settings {
		args = append(args, "--"+name+"="+value)
	}
	parser, err := kong.New(&flags, kong.Name("settings"), kong.NoDefaultHelp(), kong.Exit(func(int) {}), localmodel.Defaults())
	if err != nil {
		return "", flags, err
	}
	if _, err := parser.Parse(args); err != nil {
		return "", flags, cli.Usage(fmt.Errorf("settings of %s: %w", j.Spec.Key(), err))
	}
	return method, flags, nil
}

// cpuModel is the processor as the operating system calls it, else its architecture.
func cpuModel() string { return cmp.Or(bench.Processor(), runtime.GOARCH) }

// timedLearner measures the throughput of a learner.
type timedLearner struct {
	train.Learner
	sequences int
	spent     time.Duration
}

// Step implements train.Learner.
func (t *timedLearner) Step(batch []rewardmodel.Sequence, lr float64, loss train.Loss) (float64, error) {
	defer t.count(len(batch), time.Now())
	return t.Learner.Step(batch, lr, loss)
}

// StepFeatures implements train.Learner.
func (t *timedLearner) StepFeatures(batch []rewardmodel.Sequence, lr float64, loss train.FeatureLoss) (float64, error) {
	defer t.count(len(batch), time.Now())
	return t.Learner.StepFeatures(batch, lr, loss)
}

func (t *timedLearner) count(sequences int, began time.Time) {
	t.sequences += sequences
	t.spent += time.Since(began)
}

// speed returns the trained sequences per second.
func (t *timedLearner) speed() float64 {
	if t.spent == 0 {
		return 0
	}
	return float64(t.sequences) / t.spent.Seconds()
}
