package commands

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/go-json-experiment/json"

	"assay/internal/durable"
	"assay/rewardmodel/calibration"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/gate"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

// Gate decides whether a candidate may take the place of the current model.
type Gate struct {
	Current    string `required:"" placeholder:"DIR" help:"Checkpoint directory of the model that serves, or its name below models/."`
	Candidate  string `required:"" placeholder:"DIR" help:"Checkpoint directory of the model that is to take its place."`
	Holdout    string `required:"" placeholder:"FILE" help:"Bag file (JSONL) with labelled responses that the candidate was not trained on."`
	Regression string `placeholder:"FILE" help:"Bag file on which no model may become worse; default: regression.jsonl in the candidate's directory, if there is one."`
	Probe      string `placeholder:"FILE" help:"Responses (JSONL; labels are not looked at) by which rewards are compared; default: the hold-out's."`
	Out        string `placeholder:"FILE" help:"Write the report to this file, too."`

	Anchor           string `placeholder:"DIR" help:"Checkpoint directory of the best version so far: on the hold-out the candidate may not be worse than this one either."`
	RegressionAnchor string `placeholder:"DIR" help:"Checkpoint directory of the model that the regression set came with: on that set the candidate may not be worse than this one either."`

	Write bool `help:"Store calibration and metrics in the candidate's assay.json when it is promoted."`

	Metric           string  `default:"${gate_metric}" enum:"bag_auroc,avg_acc,f1_violation,bag_auprc" help:"What the models are compared by (${enum})."`
	Margin           float64 `default:"${gate_margin}" help:"By how much the metric may be worse on the hold-out."`
	RegressionMargin float64 `default:"${gate_regression_margin}" help:"By how much it may be worse on the regression set."`
	Confidence       float64 `default:"${gate_confidence}" help:"How sure that must be, by a one-sided paired bootstrap; in [0.5,1)."`
	MinBags          int     `default:"${gate_min_bags}" help:"Minimum of bags of each label in the hold-out; up to ${default} also in the regression set, and of responses in the probe set. Fewer than ${default} promote models that are worse."`
	MaxShift         float64 `default:"${gate_max_shift}" help:"Largest mean change of the compliance reward on the probe set, after calibration."`
	AllowShift       bool    `help:"Let rewards change as much as they do."`
	Resamples        int     `default:"${gate_resamples}" help:"Bootstrap resamples."`
	Seed             uint64  `default:"0" help:"Seed of the bootstrap."`

	AllowUntrained bool `help:"Accept a base model as the current one; its fresh head gives scores without meaning."`
	localmodel.ComputeFlags
}

// Help is shown by --help.
func (*Gate) Help() string {
	return `Example:

    assay gate --current models/default --candidate models/mine --holdout holdout.jsonl --probe recent.jsonl --write

Prints a report as JSON and exits with 0 when the candidate may be promoted and with 1 when not (then
"promote" is false and "reasons" says why). A failure exits with 1 as well, but without a report.`
}

// Defaults are those of the flags in this package, and of those of the service that mean the same.
func Defaults() kong.Vars {
	cfg := gate.DefaultConfig()
	return cli.Defaults(map[string]any{
		"gate_metric": cfg.Metric, "gate_margin": cfg.Margin, "gate_regression_margin": cfg.RegressionMargin,
		"gate_confidence": cfg.Confidence, "gate_min_bags": cfg.MinBags, "gate_max_shift": cfg.MaxShift, "gate_resamples": cfg.Resamples,
	})
}

// errRejected says that the gate has kept a candidate out.
var errRejected = errors.New("the candidate is rejected")

// Config is the gate that the flags describe.
func (c *Gate) Config() gate.Config {
	return gate.Config{
		Metric: gate.Metric(c.Metric), Margin: c.Margin, RegressionMargin: c.RegressionMargin, Confidence: c.Confidence,
		MinBags: c.MinBags, MaxShift: c.MaxShift, AllowShift: c.AllowShift, Resamples: c.Resamples, Seed: c.Seed,
	}
}

// Run is called by kong.
func (c *Gate) Run(a *cli.App) error {
	ctx, stop := a.UntilSignal()
	defer stop()
	cfg := c.Config()
	if err := cfg.Validate(); err != nil {
		return cli.Usage(err)
	}
	current, err := localmodel.Find("--current", c.Current)
	if err != nil {
		return err
	}
	dir, err := localmodel.Find("--candidate", c.Candidate)
	if err != nil {
		return err
	}
	anchor, err := findAnchor("--anchor", c.Anchor, current)
	if err != nil {
		return err
	}
	regressionAnchor, err := findAnchor("--regression-anchor", c.RegressionAnchor, current)
	if err != nil {
		return err
	}
	sets, err := c.read(a, dir)
	if err != nil {
		return err
	}
	s := gateScorer{app: a, compute: c.Compute(), sets: sets}
	var in gate.Input
	if in.Current, err = s.current(ctx, current, c.AllowUntrained); err != nil {
		return err
	}
	if in.Candidate, err = s.candidate(ctx, dir); err != nil {
		return err
	}
	if in.HoldoutAnchor, err = s.reference(ctx, "--anchor", anchor, sets.holdout); err != nil {
		return err
	}
	if in.RegressionAnchor, err = s.reference(ctx, "--regression-anchor", regressionAnchor, sets.regression); err != nil {
		return err
	}
	in.Holdout, in.Regression, in.Probe = sets.holdout.bags(), sets.regression.bags(), sets.probe.bags()
	report, err := gate.Decide(cfg, in)
	if err != nil {
		return err
	}
	if c.Write && report.Promote {
		if err := store(dir, report); err != nil {
			return fmt.Errorf("--candidate: %w", err)
		}
	}
	if err := c.print(a, report); err != nil {
		return err
	}
	if !report.Promote {
		return fmt.Errorf("%w: %s", errRejected, strings.Join(report.Reasons, " "))
	}
	return nil
}

// findAnchor returns the directory of an anchor; "" without a name, or when it is the current model.
func findAnchor(flag, name, current string) (string, error) {
	if name == "" {
		return "", nil
	}
	dir, err := localmodel.Find(flag, name)
	if err != nil || sameDirectory(dir, current) {
		return "", err
	}
	return dir, nil
}

func sameDirectory(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// print writes the report to the standard output and to --out, there whole or not at all.
func (c *Gate) print(a *cli.App, report gate.Report) error {
	line, err := json.Marshal(report, json.Deterministic(true))
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if c.Out != "" {
		if err := durable.WriteFile(c.Out, line, 0o644); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	_, err = a.Stdout.Write(line)
	return err
}

// store puts into assay.json what the gate found: the calibration, and the candidate's figures.
func store(dir string, report gate.Report) error {
	return checkpoint.UpdateManifest(dir, func(m *checkpoint.Manifest) {
		m.Calibration = nil
		for aggregate, curve := range report.Calibration {
			if m.Calibration == nil {
				m.Calibration = map[string]calibration.Map{}
			}
			m.Calibration[string(aggregate)] = curve
		}
		if m.Metrics == nil {
			m.Metrics = map[string]float64{}
		}
		for set, compared := range map[string]*gate.Comparison{"holdout": report.Holdout, "regression": report.Regression} {
			if compared == nil {
				continue
			}
			for metric, pair := range compared.Metrics {
				m.Metrics[set+"."+string(metric)] = pair.Candidate
			}
		}
	})
}

// read reads all sets.
func (c *Gate) read(a *cli.App, candidate string) (*gateSets, error) {
	var sets gateSets
	var err error
	if sets.holdout, err = readLabelled(a, "--holdout", c.Holdout); err != nil {
		return nil, err
	}
	if c.Regression == "" {
		if path := filepath.Join(candidate, regressionFile); isFile(path) {
			c.Regression = path
		}
	}
	if c.Regression != "" {
		if sets.regression, err = readLabelled(a, "--regression", c.Regression); err != nil {
			return nil, err
		}
	}
	if c.Probe == "" {
		sets.probe.items = sets.holdout.items
		return &sets, nil
	}
	sets.probe, err = readProbe(a, c.Probe)
	return &sets, err
}
