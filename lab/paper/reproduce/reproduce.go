package reproduce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/term"

	"assay/lab/paper"
	"assay/sidecar/cli"
)

// Command reproduces the experiments of the BFGPU paper.
type Command struct {
	Preset   string `default:"small" enum:"smoke,small,paper" help:"Runs (${enum}): every method on a few bags, what a small backbone can show, or the whole paper."`
	Plan     string `placeholder:"FILE.yaml" help:"Custom runs instead of a preset."`
	Backbone string `placeholder:"DIR" help:"Checkpoint directory that training initializes from, or its name under models/."`
	Data     string `default:"../shared/data" placeholder:"DIR" help:"Directory of the data sets, each in a subdirectory (${default})."`
	Results  string `placeholder:"FILE" help:"File that the runs are appended to; a run that it has is not repeated. Default: results.jsonl in the directory of the report."`
	Report   string `placeholder:"DIR" help:"Directory of the report. Default: docs/paper; for the preset smoke a temporary directory."`

	Methods    []string `placeholder:"NAME" help:"Only these methods."`
	Datasets   []string `placeholder:"NAME" help:"Only these data sets."`
	Sigmas     []int    `placeholder:"N" help:"Only these sigma_micro (normal instances per anomalous one in its bag)."`
	SigmaMacro []int    `placeholder:"N" help:"Only these sigma_macro (normal bags per anomalous one in training)."`
	Seeds      []uint64 `placeholder:"N" help:"Only these seeds."`
	Epochs     int      `help:"Epochs, instead of the plan's."`
	LR         float64  `name:"lr" help:"Peak learning rate, instead of the plan's."`
	Batch      int      `help:"Mini-batch, instead of the plan's."`

	Jobs       int    `default:"1" help:"Concurrent runs (${default})."`
	Threads    int    `default:"0" help:"CPU threads of each run; 0: divide those of the process among the jobs."`
	Device     string `default:"auto" help:"auto, cpu or cuda:N (${default})."`
	Precision  string `default:"auto" enum:"auto,fp32,bf16" help:"dtype of the computation (${enum})."`
	OnlyReport bool   `help:"Run nothing; write the report again."`
	List       bool   `help:"Run nothing; list the runs of the plan and whether they are done."`

	judgeFlags

	// Start prepares the runs; nil is startRuns. A field, so that tests need no model.
	Start starter `kong:"-"`
}

// starter prepares the runs.
type starter func(c *Command) (paper.RunFunc, error)

// Help is shown by --help.
func (*Command) Help() string {
	return `Example:

    assay-lab bench paper --preset small --backbone models/minilm

Trains and measures method by method, appends a line to the results for each run, and writes tables and plots alongside
the paper's numbers to docs/paper. Stop it at any time: completed runs are kept, and the next call does the rest.
A custom plan is a YAML file:

    runs:
      - {datasets: [sst2], sigma-micro: [2, 4], methods: [bfgpu, macro], seeds: [0, 1], rate: 2e-5, epochs: 5, batch: 16}
      - {datasets: [sst2], sigma-micro: [2], methods: [bfgpu], settings: ["weights=paper", "loss=sigmoid"]}`
}

// Run is called by kong.
func (c *Command) Run(a *cli.App) error {
	c.setPaths()
	store, err := paper.OpenStore(c.Results)
	if err != nil {
		return cli.Usage(fmt.Errorf("--results: %w", err))
	}
	for _, p := range store.Problems() {
		a.Log.Warn().Int("line", p.Line).Err(p.Err).Str("file", c.Results).Msg("ignored an unrecognized line of the results")
	}
	if !c.OnlyReport {
		plan, err := c.plan(store)
		if err != nil {
			return err
		}
		if c.List {
			return c.list(a, store, plan)
		}
		if err := c.runs(a, store, plan); err != nil {
			return errors.Join(err, c.report(a, store))
		}
	}
	return c.report(a, store)
}

// setPaths sets the defaults of the results and the report.
func (c *Command) setPaths() {
	if c.Report == "" {
		c.Report = filepath.Join("docs", "paper")
		if c.Preset == paper.Smoke && c.Plan == "" {
			c.Report = filepath.Join(os.TempDir(), "assay-bench-paper-smoke")
		}
	}
	c.Results = cmp.Or(c.Results, filepath.Join(c.Report, "results.jsonl"))
}

// bestBaselines is how many methods the small preset compares on the larger sets, in addition to BFGPU and the macro
// supervised one.
const bestBaselines = 2

func (c *Command) plan(store *paper.Store) ([]paper.Spec, error) {
	backbone := c.backboneName()
	if backbone == "" {
		return nil, cli.Usage(errors.New("--backbone is missing; give the checkpoint directory to initialize from"))
	}
	blocks, err := paper.Preset(c.Preset, paper.BestBaselines(store.Records(), paper.SST2, backbone, bestBaselines))
	if c.Plan != "" {
		blocks, err = paper.ReadBlocks(c.Plan)
	}
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--plan: %w", err))
	}
	plan, err := paper.Plan(blocks, paper.Options{
		Backbone: backbone, Rate: c.LR, Epochs: c.Epochs, Batch: c.Batch,
		Datasets: c.Datasets, Methods: c.Methods, SigmaMicro: c.Sigmas, SigmaMacro: c.SigmaMacro, Seeds: c.Seeds,
	})
	if err != nil {
		return nil, cli.Usage(err)
	}
	if len(plan) == 0 {
		return nil, cli.Usage(errors.New("no run of the plan is selected; loosen --methods, --datasets, --sigmas, --sigma-macro or --seeds"))
	}
	return plan, nil
}

// backboneName is the name of the directory, which the records contain.
func (c *Command) backboneName() string {
	if c.Backbone == "" {
		return ""
	}
	return filepath.Base(filepath.Clean(c.Backbone))
}

// list prints the plan, one run per line.
func (c *Command) list(a *cli.App, store *paper.Store, plan []paper.Spec) error {
	done := 0
	for _, s := range plan {
		state := "      "
		if store.Has(s) {
			state = "done  "
			done++
		}
		if _, err := fmt.Fprintln(a.Stdout, state+s.Key()); err != nil {
			return err
		}
	}
	a.Log.Info().Int("runs", len(plan)).Int("done", done).Msg("plan")
	return nil
}

// runs does the outstanding runs of the plan. The small preset knows its best baselines only after its first runs, so
// that the plan is computed twice.
func (c *Command) runs(a *cli.App, store *paper.Store, plan []paper.Spec) error {
	if len(store.Outstanding(plan)) == 0 {
		a.Log.Info().Int("runs", len(plan)).Str("results", c.Results).Msg("all runs are done already")
		return nil
	}
	start := c.Start
	if start == nil {
		start = startRuns
	}
	ctx, stop := a.UntilSignal()
	defer stop()
	run, err := start(c)
	if err != nil {
		return err
	}
	var failed []paper.Failure
	for range 2 {
		outcome, err := c.do(ctx, a, store, run, withoutFailed(plan, failed))
		failed = append(failed, outcome.Failed...)
		if err != nil {
			return err
		}
		if plan, err = c.plan(store); err != nil {
			return err
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d runs failed, the first is %s: %w", len(failed), failed[0].Spec.Key(), failed[0].Err)
	}
	return nil
}

// withoutFailed removes the runs that have failed.
func withoutFailed(plan []paper.Spec, failed []paper.Failure) []paper.Spec {
	return slices.DeleteFunc(slices.Clone(plan), func(s paper.Spec) bool {
		return slices.ContainsFunc(failed, func(f paper.Failure) bool { return f.Spec.Key() == s.Key() })
	})
}

// do runs a plan and shows its progress.
func (c *Command) do(ctx context.Context, a *cli.App, store *paper.Store, run paper.RunFunc, plan []paper.Spec) (paper.Outcome, error) {
	todo := len(store.Outstanding(plan))
	if todo == 0 {
		return paper.Outcome{}, nil
	}
	board := paper.NewBoard(c.Jobs, todo)
	version, commit := cli.BuildVersion()
	if version == "devel" {
		version = commit
	}
	runner := paper.Runner{
		Store: store, Run: run, Workers: c.Jobs, Observer: board, Version: version,
		Machine: paper.Machine{CPU: cpuModel(), Threads: c.Threads},
	}
	ended := make(chan struct{})
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		showBoard(a, board, ended)
	}()
	outcome, err := runner.Do(ctx, plan)
	close(ended)
	<-shown
	return outcome, err
}

// showBoard draws the board on a terminal; elsewhere it logs how each run ended, and periodically the progress of the
// others.
func showBoard(a *cli.App, board *paper.Board, ended <-chan struct{}) {
	live := cli.IsTerminal(a.Stderr) && !a.JSONLogs
	every, began := cli.LogEvery, time.Now()
	screen := paper.Screen{W: a.Stderr}
	if live {
		every = 500 * time.Millisecond
		if f, ok := a.Stderr.(*os.File); ok {
			screen.Width, _, _ = term.GetSize(int(f.Fd())) // 0, no limit, where the terminal does not report it
		}
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for open := true; open; {
		select {
		case <-ended:
			open = false
		case <-tick.C:
		}
		endings, lines := board.Endings(), board.Lines(time.Since(began))
		if live {
			if !open {
				lines = lines[:1]
			}
			_ = screen.Draw(endings, lines) // a board that cannot be drawn is not a failure
			continue
		}
		for _, line := range endings {
			a.Log.Info().Msg(line)
		}
		if open {
			a.Log.Info().Strs("active", lines[2:]).Msg(lines[0])
		} else {
			a.Log.Info().Msg(lines[0])
		}
	}
}

// report writes tables and plots of all records.
func (c *Command) report(a *cli.App, store *paper.Store) error {
	changed, err := paper.WriteReport(c.Report, store.Records())
	if err != nil {
		return err
	}
	a.Log.Info().Str("report", filepath.Join(c.Report, "README.md")).Int("runs", len(store.Records())).Int("changed_files", len(changed)).Msg("report written")
	return nil
}
