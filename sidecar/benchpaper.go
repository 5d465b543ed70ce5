package main

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

	"assay/rewardmodel/paper"
	"assay/sidecar/cli"
)

// benchPaperCmd repeats the experiments of the BFGPU paper.
type benchPaperCmd struct {
	Preset   string `default:"small" enum:"smoke,small,paper" help:"Which runs (${enum}): every method on a few bags, what a small backbone can show, or the whole paper."`
	Plan     string `placeholder:"FILE.yaml" help:"Runs of one's own instead of a preset."`
	Backbone string `placeholder:"DIR" help:"Checkpoint folder that training begins from, or its name below models/."`
	Data     string `default:"../shared/data" placeholder:"DIR" help:"Folder that holds the data sets, each in a folder of its own (${default})."`
	Results  string `placeholder:"FILE" help:"File that the runs are added to; a run that stands there is not repeated. Default: results.jsonl in the folder of the report."`
	Report   string `placeholder:"DIR" help:"Folder of the report. Default: docs/paper; for the preset smoke a folder for temporary files."`

	Methods    []string `placeholder:"NAME" help:"Only these methods."`
	Datasets   []string `placeholder:"NAME" help:"Only these data sets."`
	Sigmas     []int    `placeholder:"N" help:"Only these sigma_micro (normal instances for each anomalous one in its bag)."`
	SigmaMacro []int    `placeholder:"N" help:"Only these sigma_macro (normal bags for each anomalous one in training)."`
	Seeds      []uint64 `placeholder:"N" help:"Only these seeds."`
	Epochs     int      `help:"Passes over the bags, instead of the plan's."`
	LR         float64  `name:"lr" help:"Peak learning rate, instead of the plan's."`
	Batch      int      `help:"Mini-batch, instead of the plan's."`

	Jobs       int    `default:"1" help:"Runs at a time."`
	Threads    int    `default:"0" help:"CPU threads of each run; 0 shares those of the process among the jobs."`
	Device     string `default:"auto" help:"auto, cpu or cuda:N."`
	Precision  string `default:"auto" enum:"auto,fp32,bf16" help:"Number format of the computation (${enum})."`
	OnlyReport bool   `help:"Run nothing; write the report anew."`
	List       bool   `help:"Run nothing; print the runs of the plan and whether they are done."`

	judgeFlags

	// Start prepares the training; nil is startPaper. A field, so that tests need no model.
	Start paperStarter `kong:"-"`
}

// paperStarter prepares what all runs share. stop frees it.
type paperStarter func(ctx context.Context, a *cli.App, c *benchPaperCmd) (run paper.RunFunc, stop func(), err error)

// Help is shown by --help.
func (*benchPaperCmd) Help() string {
	return `Example:

    assay bench paper --preset small --backbone models/minilm

Trains and measures method by method, adds a line to the results for each run, and writes tables and plots beside the
paper's numbers to docs/paper. Stop it at any time: what is done is kept, and the next call goes on with the rest.
A plan of one's own is a YAML file:

    runs:
      - {datasets: [sst2], sigma-micro: [2, 4], methods: [bfgpu, macro], seeds: [0, 1], rate: 2e-5, epochs: 5, batch: 16}
      - {datasets: [sst2], sigma-micro: [2], methods: [bfgpu], settings: ["weights=paper", "loss=sigmoid"]}`
}

// Run is called by kong.
func (c *benchPaperCmd) Run(a *cli.App) error {
	c.places()
	store, err := paper.OpenStore(c.Results)
	if err != nil {
		return cli.Usage(fmt.Errorf("--results: %w", err))
	}
	for _, p := range store.Problems() {
		a.Log.Warn().Int("line", p.Line).Err(p.Err).Str("file", c.Results).Msg("this line does not count")
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

// places fills in where results and report go.
func (c *benchPaperCmd) places() {
	if c.Report == "" {
		c.Report = filepath.Join("docs", "paper")
		if c.Preset == paper.Smoke && c.Plan == "" {
			c.Report = filepath.Join(os.TempDir(), "assay-bench-paper-smoke")
		}
	}
	c.Results = cmp.Or(c.Results, filepath.Join(c.Report, "results.jsonl"))
}

// rivals is how many methods the small preset compares beside BFGPU and the macro supervised one on the larger sets.
const rivals = 2

func (c *benchPaperCmd) plan(store *paper.Store) ([]paper.Spec, error) {
	backbone := c.backboneName()
	if backbone == "" {
		return nil, cli.Usage(errors.New("--backbone is missing; give the checkpoint folder to begin from"))
	}
	blocks, err := paper.Preset(c.Preset, paper.BestRivals(store.Records(), paper.SST2, backbone, rivals))
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
		return nil, cli.Usage(errors.New("no run of the plan is left; loosen --methods, --datasets, --sigmas, --sigma-macro or --seeds"))
	}
	return plan, nil
}

// backboneName is the folder's name, which stands in the records.
func (c *benchPaperCmd) backboneName() string {
	if c.Backbone == "" {
		return ""
	}
	return filepath.Base(filepath.Clean(c.Backbone))
}

// list prints the plan, a run a line.
func (c *benchPaperCmd) list(a *cli.App, store *paper.Store, plan []paper.Spec) error {
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

// runs does what the plan leaves to do. The small preset knows its rivals only after its first runs, so that the plan
// is drawn up twice.
func (c *benchPaperCmd) runs(a *cli.App, store *paper.Store, plan []paper.Spec) error {
	if len(store.Outstanding(plan)) == 0 {
		a.Log.Info().Int("runs", len(plan)).Str("results", c.Results).Msg("all runs are done already")
		return nil
	}
	start := c.Start
	if start == nil {
		start = startPaper
	}
	ctx, stop := a.UntilSignal()
	defer stop()
	run, free, err := start(ctx, a, c)
	if err != nil {
		return err
	}
	defer free()
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

// withoutFailed leaves out what would only fail again.
func withoutFailed(plan []paper.Spec, failed []paper.Failure) []paper.Spec {
	return slices.DeleteFunc(slices.Clone(plan), func(s paper.Spec) bool {
		return slices.ContainsFunc(failed, func(f paper.Failure) bool { return f.Spec.Key() == s.Key() })
	})
}

// do runs a plan and shows how it goes.
func (c *benchPaperCmd) do(ctx context.Context, a *cli.App, store *paper.Store, run paper.RunFunc, plan []paper.Spec) (paper.Outcome, error) {
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
		Machine: paper.Machine{CPU: paper.CPUModel(), Threads: c.Threads},
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

// showBoard draws the board on a terminal; elsewhere it logs how each run ended, and now and then how far the others are.
func showBoard(a *cli.App, board *paper.Board, ended <-chan struct{}) {
	live := cli.IsTerminal(a.Stderr) && !a.JSONLogs
	every, began := cli.LogEvery, time.Now()
	screen := paper.Screen{W: a.Stderr}
	if live {
		every = 500 * time.Millisecond
		if f, ok := a.Stderr.(*os.File); ok {
			screen.Width, _, _ = term.GetSize(int(f.Fd())) // 0, no limit, when the terminal does not tell
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
			_ = screen.Draw(endings, lines) // a board that cannot be drawn is no failure
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

// report writes tables and plots of all that is recorded.
func (c *benchPaperCmd) report(a *cli.App, store *paper.Store) error {
	changed, err := paper.WriteReport(c.Report, store.Records())
	if err != nil {
		return err
	}
	a.Log.Info().Str("report", filepath.Join(c.Report, "README.md")).Int("runs", len(store.Records())).Int("changed_files", len(changed)).Msg("report written")
	return nil
}
