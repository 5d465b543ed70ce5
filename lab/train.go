package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"

	"assay/lab/stats"
	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/encoder"
	"assay/rewardmodel/train"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

// trainCmd takes the same optimizer steps with the encoder's learner and with PyTorch.
type trainCmd struct {
	Bags    []string `required:"" placeholder:"FILE" help:"Bag files (JSONL) to train on."`
	Init    string   `required:"" placeholder:"DIR" help:"Checkpoint directory with a classifier of two labels, violation first."`
	Python  string   `default:"python3" help:"Python with torch and transformers (${default}); empty: skip PyTorch."`
	Script  string   `default:"lab/pytorch/train_steps.py" help:"Program that takes the steps with PyTorch (${default})."`
	Steps   int      `default:"60" help:"Timed optimizer steps of a run (${default})."`
	Warmup  int      `default:"5" help:"Untimed steps before them (${default})."`
	Rounds  int      `default:"3" help:"Runs of each; the table shows the median (${default})."`
	Batch   int      `default:"16" help:"Instances of a mini-batch (${default})."`
	LR      float64  `default:"2e-5" name:"lr" help:"Learning rate (${default})."`
	Threads int      `default:"0" help:"CPU threads of each; 0: all that the process may use."`
	Losses  string   `placeholder:"FILE" help:"Write the losses of all steps to this file (JSON)."`
}

// Help is shown by --help.
func (*trainCmd) Help() string {
	return `Example:

    assay-lab bench train --bags bags.jsonl --init models/default --python .venv/bin/python

Every row takes the same steps on the same mini-batches in the same order, without dropout, so that the losses are
comparable: the last column is the maximum difference from PyTorch's loss, relative to it.`
}

// trainWork is the input of the PyTorch program.
type trainWork struct {
	Model   string      `json:"model"`
	LR      float64     `json:"lr"`
	Lambda  float64     `json:"lambda"`
	Threads int         `json:"threads"`
	Warmup  int         `json:"warmup"`
	Steps   []trainStep `json:"steps"`
}

type trainStep struct {
	Sequences [][]int32 `json:"sequences"`
	Violation []bool    `json:"violation"`
}

// trainRun is one run of a row.
type trainRun struct {
	Losses  []float64 `json:"losses"`
	Seconds float64   `json:"seconds"`
}

// Run is called by kong.
func (c *trainCmd) Run(a *cli.App) error {
	if min(c.Steps, c.Rounds, c.Batch) < 1 || c.Warmup < 0 {
		return cli.Usage(errors.New("--steps, --rounds and --batch take positive numbers, --warmup 0 or more"))
	}
	work, err := c.work(a.Context, a.Log)
	if err != nil {
		return err
	}
	rows := []struct {
		name string
		run  func() (trainRun, error)
	}{
		{"assay fp32, dense rows", c.withEncoder(work, encoder.FP32, encoder.DenseRows)},
		{"assay fp32, touched rows", c.withEncoder(work, encoder.FP32, encoder.TouchedRows)},
		{"assay bf16, dense rows", c.withEncoder(work, encoder.BF16, encoder.DenseRows)},
		{"assay bf16, touched rows", c.withEncoder(work, encoder.BF16, encoder.TouchedRows)},
	}
	if c.Python != "" {
		rows = slices.Insert(rows, 0, rows[0])
		rows[0].name, rows[0].run = "PyTorch fp32", func() (trainRun, error) { return c.withPyTorch(a.Context, work) }
	}
	runs := map[string][]trainRun{}
	for range c.Rounds { // round-robin, so that all see the same load of the machine
		for _, row := range rows {
			run, err := row.run()
			if err != nil {
				return fmt.Errorf("%s: %w", row.name, err)
			}
			runs[row.name] = append(runs[row.name], run)
			fmt.Fprintf(a.Stderr, "%s: %.2f s\n", row.name, run.Seconds)
		}
	}
	if c.Losses != "" {
		data, err := json.Marshal(runs)
		if err != nil {
			return err
		}
		if err := os.WriteFile(c.Losses, data, 0o644); err != nil {
			return err
		}
	}
	table := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "trainer\tsteps/s\ttokens/s\tratio\tloss at the end\tlargest difference\t")
	first := runs[rows[0].name]
	for _, row := range rows {
		of := runs[row.name]
		seconds := medianSeconds(of)
		fmt.Fprintf(table, "%s\t%.2f\t%.0f\t%.2f\t%.4f\t%.1e\t\n", row.name, float64(c.Steps)/seconds,
			float64(work.tokens())/seconds, medianSeconds(first)/seconds, of[0].Losses[len(of[0].Losses)-1],
			maxDifference(of[0].Losses, first[0].Losses))
	}
	return table.Flush()
}

// work plans the steps: random mini-batches of single instances, as BFGPU takes them with the weights of a batch.
func (c *trainCmd) work(ctx context.Context, log zerolog.Logger) (*trainWork, error) {
	base, tok, err := localmodel.OpenBase(c.Init)
	if err != nil {
		return nil, err
	}
	defer base.Close()
	data, _, err := localmodel.ReadBags(ctx, c.Bags, tok, localmodel.BagOptions{MaxLength: base.MaxLength()}, log)
	if err != nil {
		return nil, err
	}
	threads := c.Threads
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	dir, err := filepath.Abs(base.Dir)
	work := &trainWork{Model: dir, LR: c.LR, Threads: threads, Warmup: c.Warmup}
	work.Lambda = data[0].LambdaPU()
	for len(work.Steps) < c.Warmup+c.Steps {
		for _, batch := range data[0].Shuffled(c.Batch, uint64(len(work.Steps))) {
			if len(work.Steps) == c.Warmup+c.Steps {
				break
			}
			step := trainStep{Violation: batch.Violation}
			for _, s := range batch.Sequences {
				step.Sequences = append(step.Sequences, s.IDs)
			}
			work.Steps = append(work.Steps, step)
		}
	}
	return work, err
}

// tokens counts those of the timed steps.
func (w *trainWork) tokens() int {
	n := 0
	for _, s := range w.Steps[w.Warmup:] {
		for _, seq := range s.Sequences {
			n += len(seq)
		}
	}
	return n
}

// withEncoder takes the steps with the encoder's learner.
func (c *trainCmd) withEncoder(work *trainWork, precision encoder.Precision, rows encoder.EmbeddingRows) func() (trainRun, error) {
	return func() (run trainRun, err error) {
		base, err := checkpoint.Open(work.Model)
		if err != nil {
			return run, err
		}
		defer base.Close()
		device, err := encoder.NewRuntime(encoder.RuntimeOptions{Threads: work.Threads, Device: "cpu"})
		if err != nil {
			return run, err
		}
		defer device.Close()
		learner, err := device.NewLearner(base, encoder.LearnerOptions{Precision: precision, Dropout: new(float64), Embeddings: rows})
		if err != nil {
			return run, err
		}
		defer func() { err = errors.Join(err, learner.Close()) }()
		var began time.Time
		for i, step := range work.Steps {
			if i == work.Warmup {
				began = time.Now()
			}
			batch := make([]rewardmodel.Sequence, len(step.Sequences))
			for k, ids := range step.Sequences {
				batch[k].IDs = ids
			}
			value, err := learner.Step(batch, work.LR, train.BatchLoss(step.Violation, work.Lambda))
			if err != nil {
				return run, err
			}
			run.Losses = append(run.Losses, value)
		}
		run.Seconds = time.Since(began).Seconds()
		return run, nil
	}
}

// withPyTorch takes them with PyTorch.
func (c *trainCmd) withPyTorch(ctx context.Context, work *trainWork) (run trainRun, err error) {
	dir, err := os.MkdirTemp("", "assay-bench-*")
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	floats := *work
	if floats.Model, err = floatModel(work.Model, dir); err != nil {
		return run, err
	}
	text, err := json.Marshal(floats)
	if err != nil {
		return run, err
	}
	file := filepath.Join(dir, "work.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return run, err
	}
	cmd := exec.CommandContext(ctx, c.Python, c.Script, file)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return run, fmt.Errorf("%s %s: %w", c.Python, c.Script, err)
	}
	return run, json.Unmarshal(out, &run)
}

func medianSeconds(runs []trainRun) float64 {
	seconds := make([]float64, len(runs))
	for i, r := range runs {
		seconds[i] = r.Seconds
	}
	return stats.Median(seconds)
}

// maxDifference is the maximum difference of two loss curves, relative to the second.
func maxDifference(a, b []float64) (largest float64) {
	for i := range a {
		largest = max(largest, math.Abs(a[i]-b[i])/math.Abs(b[i]))
	}
	return largest
}
