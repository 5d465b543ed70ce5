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
	"assay/rewardmodel"
	"assay/rewardmodel/calibration"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/gate"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

// Gate decides whether a candidate may replace the current model.
type Gate struct {
	Current    string `required:"" placeholder:"DIR" help:"Checkpoint directory of the model that serves, or its name under models/."`
	Candidate  string `required:"" placeholder:"DIR" help:"Checkpoint directory of the model to promote, or its name under models/."`
	Holdout    string `required:"" placeholder:"FILE" help:"Bag file (JSONL) of labeled responses that the candidate was not trained on."`
	Regression string `placeholder:"FILE" help:"Bag file (JSONL) of the regression set; default: regression.jsonl in the candidate's directory, if it exists."`
	Probe      string `placeholder:"FILE" help:"Responses (JSONL; labels are ignored) to compare rewards on; default: those of the hold-out."`
	Out        string `placeholder:"FILE" help:"File to write the report to, in addition to standard output."`

	Anchor           string `placeholder:"DIR" help:"Checkpoint directory of the best version so far; on the hold-out the candidate must not be worse than this version either."`
	RegressionAnchor string `placeholder:"DIR" help:"Checkpoint directory of the model that the regression set came with; on that set the candidate must not be worse than this model either."`

	Write bool `help:"Write calibration and metrics to the candidate's assay.json if it passes."`

	Metric           string  `default:"${gate_metric}" enum:"bag_auroc,avg_acc,f1_violation,bag_auprc" help:"Metric to compare the models by (${enum})."`
	Margin           float64 `default:"${gate_margin}" help:"Maximum decrease of the metric on the hold-out."`
	RegressionMargin float64 `default:"${gate_regression_margin}" help:"Maximum decrease of the metric on the regression set."`
	Confidence       float64 `default:"${gate_confidence}" help:"Confidence in [0.5,1) of the one-sided paired bootstrap."`
	MinBags          int     `default:"${gate_min_bags}" help:"Minimum bags per label in the hold-out; up to ${default}, also the minimum of the regression set and of the responses in the probe set. With fewer than ${default}, the gate can promote worse models."`
	MaxShift         float64 `default:"${gate_max_shift}" help:"Maximum mean change of the compliance reward on the probe set, after calibration."`
	AllowShift       bool    `help:"Ignore the maximum change of the rewards."`
	Resamples        int     `default:"${gate_resamples}" help:"Number of bootstrap resamples."`
	Seed             uint64  `default:"0" help:"Seed of the bootstrap."`

	AllowUntrained bool `help:"Accept a base model as the current one; its randomly initialized classification head gives meaningless scores."`
	localmodel.ComputeFlags
}

// Help is shown by --help.
func (*Gate) Help() string {
	return `Example:

    assay gate --current models/default --candidate models/mine --holdout holdout.jsonl --probe recent.jsonl --write

Prints a JSON report. Exits with 0 if the candidate passes, and with 1 if it does not ("promote" is false, and
"reasons" lists why). A failure also exits with 1, but prints no report.

Each aspect (rule) of a model with several is judged on the bags that have a label of it, and any can reject the
candidate; "aspects" has the report of each. At least one aspect needs --min-bags of each label.`
}

// Defaults are the default values of the flags in this package and of the gate flags of the service.
func Defaults() kong.Vars {
	cfg := gate.DefaultConfig()
	return cli.Defaults(map[string]any{
		"gate_metric": cfg.Metric, "gate_margin": cfg.Margin, "gate_regression_margin": cfg.RegressionMargin,
		"gate_confidence": cfg.Confidence, "gate_min_bags": cfg.MinBags, "gate_max_shift": cfg.MaxShift, "gate_resamples": cfg.Resamples,
	})
}

// errRejected reports that the gate rejected a candidate.
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
	in, err := s.input(ctx, gateModels{current: current, candidate: dir, anchor: anchor, regressionAnchor: regressionAnchor, allowUntrained: c.AllowUntrained})
	if err != nil {
		return err
	}
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

// findAnchor returns the directory of an anchor; "" if name is empty or refers to the current model.
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

// print writes the report to standard output and, atomically, to --out.
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

// store writes the calibrations and the metrics of the candidate to its assay.json.
func store(dir string, report gate.Report) error {
	return checkpoint.UpdateManifest(dir, func(m *checkpoint.Manifest) {
		m.Calibration = curves(report.Calibration)
		for i, a := range m.Aspects {
			fitted := report.Calibration
			if of, several := report.Aspects[a.Name]; several {
				fitted = of.Calibration
			}
			m.Aspects[i].Calibration = curves(fitted)
		}
		if m.Metrics == nil {
			m.Metrics = map[string]float64{}
		}
		addMetrics(m.Metrics, "", report.Holdout, report.Regression)
		for name, a := range report.Aspects {
			addMetrics(m.Metrics, name+".", a.Holdout, a.Regression)
		}
	})
}

// curves are the calibrations of the manifest; nil if there are none.
func curves(fitted rewardmodel.Calibration) map[string]calibration.Map {
	if len(fitted) == 0 {
		return nil
	}
	out := map[string]calibration.Map{}
	for aggregate, curve := range fitted {
		out[string(aggregate)] = curve
	}
	return out
}

// addMetrics adds the candidate's metrics by the name of the set, the aspect and the metric.
func addMetrics(to map[string]float64, aspect string, holdout, regression *gate.Comparison) {
	for set, compared := range map[string]*gate.Comparison{"holdout": holdout, "regression": regression} {
		if compared == nil {
			continue
		}
		for metric, pair := range compared.Metrics {
			to[set+"."+aspect+string(metric)] = pair.Candidate
		}
	}
}

// read reads the hold-out, the regression set and the probe set.
func (c *Gate) read(a *cli.App, candidate string) (*gateSets, error) {
	var sets gateSets
	var err error
	if sets.holdout, err = readLabeled(a, "--holdout", c.Holdout); err != nil {
		return nil, err
	}
	if c.Regression == "" {
		if path := filepath.Join(candidate, regressionFile); isFile(path) {
			c.Regression = path
		}
	}
	if c.Regression != "" {
		if sets.regression, err = readLabeled(a, "--regression", c.Regression); err != nil {
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
