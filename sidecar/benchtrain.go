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

	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/encoder"
	"assay/rewardmodel/tokenizer"
	"assay/rewardmodel/train"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

// benchTrainCmd takes the same optimizer steps with the project's learner and with PyTorch.
type benchTrainCmd struct {
	Bags    []string `required:"" placeholder:"FILE" help:"Bag files (JSONL) to train on."`
	Init    string   `required:"" placeholder:"DIR" help:"Checkpoint folder with a classifier of two labels, violation first."`
	Python  string   `default:"python3" help:"Python with torch and transformers; empty leaves the peer out."`
	Script  string   `default:"rewardmodel/train/benchmark/pytorch.py" help:"The peer."`
	Steps   int      `default:"60" help:"Timed optimizer steps of a run."`
	Warmup  int      `default:"5" help:"Steps before them."`
	Rounds  int      `default:"3" help:"Runs of each; the median counts."`
	Batch   int      `default:"16" help:"Instances in a mini-batch."`
	LR      float64  `default:"2e-5" name:"lr" help:"Learning rate."`
	Threads int      `default:"0" help:"CPU threads of each; 0 is all that the process may use."`
	Losses  string   `placeholder:"FILE" help:"Write the losses of all steps there (JSON)."`
}

// Help is shown by --help.
func (*benchTrainCmd) Help() string {
	return `Example:

    assay bench train --bags bags.jsonl --init models/default --python .venv/bin/python

Every row takes the same steps on the same mini-batches in the same order, without dropout, so that the losses can be
compared: the last column is the largest difference from PyTorch's, relative to its loss.`
}

// trainWork is what the peer reads.
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
func (c *benchTrainCmd) Run(a *cli.App) error {
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
		{"assay fp32, dense rows", c.own(work, encoder.FP32, encoder.DenseRows)},
		{"assay fp32, touched rows", c.own(work, encoder.FP32, encoder.TouchedRows)},
		{"assay bf16, dense rows", c.own(work, encoder.BF16, encoder.DenseRows)},
		{"assay bf16, touched rows", c.own(work, encoder.BF16, encoder.TouchedRows)},
	}
	if c.Python != "" {
		rows = slices.Insert(rows, 0, rows[0])
		rows[0].name, rows[0].run = "PyTorch fp32", func() (trainRun, error) { return c.peer(a.Context, work) }
	}
	runs := map[string][]trainRun{}
	for range c.Rounds { // in turn, so that a slow moment of the machine is shared
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
		own := runs[row.name]
		seconds := medianSeconds(own)
		fmt.Fprintf(table, "%s\t%.2f\t%.0f\t%.2f\t%.4f\t%.1e\t\n", row.name, float64(c.Steps)/seconds,
			float64(work.tokens())/seconds, medianSeconds(first)/seconds, own[0].Losses[len(own[0].Losses)-1],
			apart(own[0].Losses, first[0].Losses))
	}
	return table.Flush()
}

// work plans the steps: random mini-batches of single instances, as BFGPU takes them with the weights of a batch.
func (c *benchTrainCmd) work(ctx context.Context, log zerolog.Logger) (*trainWork, error) {
	dir, err := localmodel.Find("--init", c.Init)
	if err != nil {
		return nil, err
	}
	base, err := checkpoint.Open(dir)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--init: %w", err))
	}
	defer base.Close()
	tok, err := tokenizer.Load(dir)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--init: %w", err))
	}
	data, _, err := localmodel.ReadBags(ctx, c.Bags, tok, base.MaxLength(), log)
	if err != nil {
		return nil, err
	}
	threads := c.Threads
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	dir, err = filepath.Abs(dir)
	work := &trainWork{Model: dir, LR: c.LR, Threads: threads, Warmup: c.Warmup}
	work.Lambda = data.LambdaPU()
	for len(work.Steps) < c.Warmup+c.Steps {
		for _, batch := range data.Shuffled(c.Batch, uint64(len(work.Steps))) {
			if len(work.Steps) == c.Warmup+c.Steps {
				break
			}
			work.Steps = append(work.Steps, trainStep{batch.Sequences, batch.Violation})
		}
	}
	return work, err
}

// tokens of the timed steps.
func (w *trainWork) tokens() int {
	n := 0
	for _, s := range w.Steps[w.Warmup:] {
		for _, seq := range s.Sequences {
			n += len(seq)
		}
	}
	return n
}

// own runs the steps with the project's learner.
func (c *benchTrainCmd) own(work *trainWork, precision encoder.Precision, rows encoder.EmbeddingRows) func() (trainRun, error) {
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
			value, err := learner.Step(step.Sequences, work.LR, train.BatchLoss(step.Violation, work.Lambda))
			if err != nil {
				return run, err
			}
			run.Losses = append(run.Losses, value)
		}
		run.Seconds = time.Since(began).Seconds()
		return run, nil
	}
}

// peer runs them with PyTorch.
func (c *benchTrainCmd) peer(ctx context.Context, work *trainWork) (run trainRun, err error) {
	f, err := os.CreateTemp("", "assay-bench-*.json")
	if err != nil {
		return run, err
	}
	defer os.Remove(f.Name())
	err = errors.Join(json.NewEncoder(f).Encode(work), f.Close())
	if err != nil {
		return run, err
	}
	cmd := exec.CommandContext(ctx, c.Python, c.Script, f.Name())
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
	slices.Sort(seconds)
	return seconds[len(seconds)/2]
}

// apart is the largest difference of two loss curves, relative to the second.
func apart(a, b []float64) (most float64) {
	for i := range a {
		most = max(most, math.Abs(a[i]-b[i])/math.Abs(b[i]))
	}
	return most
}
