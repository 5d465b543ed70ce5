package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/internal/durable"
	"assay/lab/bench"
	"assay/lab/flags"
	"assay/lab/report"
	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/encoder"
	"assay/rewardmodel/eval"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

// reportCmd writes a report on a model.
type reportCmd struct {
	Sets       []string `arg:"" name:"file" help:"Bag files (JSONL); each is a set."`
	Model      string   `default:"${model}" placeholder:"DIR" help:"Checkpoint directory, or its name under models/ (${default})."`
	Out        string   `default:"model-report" placeholder:"DIR" help:"Directory for report.md, report.json, and the Python environment of the baselines (${default})."`
	Harmless   []string `placeholder:"FILE" help:"Bag files whose harmless responses, compliant with every aspect, the operating points are chosen on. Default: those of the sets."`
	Train      []string `placeholder:"FILE" help:"Bag files that the model was trained on, to train the linear classifier on. Default: no linear classifier."`
	Fields     []string `default:"category,form,spelling" placeholder:"NAME" help:"Fields of the lines by whose values the metrics are grouped (${default})."`
	Precisions []string `default:"fp32,bf16,int8" enum:"fp32,bf16,int8" help:"Dtypes of the computation; the report is on the first, and the others are compared with it (${default})."`
	Baselines  bool     `default:"true" negatable:"" help:"Score with classifiers from PyPI, which are installed into --out."`
	Examples   int      `default:"0" help:"Write the texts of this many false alarms and misses of each set to examples.json in --out. Respect the licenses of the sets."`
	Resamples  int      `default:"1000" help:"Bootstrap resamples for the 95% confidence intervals (${default}); 0: no intervals."`
	Seed       uint64   `default:"0" help:"Seed of the bootstrap."`
	Python     string   `default:"python3" help:"Interpreter that creates the Python environment (${default})."`
	Device     string   `default:"auto" help:"Device of the computation: auto, cpu or cuda:N."`
	Threads    int      `default:"0" help:"CPU threads of libtorch; 0: all CPUs available to the process."`
}

// Help is shown by --help.
func (*reportCmd) Help() string {
	return `Example:

    assay-lab report --model models/default --train models/work/train.jsonl models/work/test-*.jsonl

A set is named after its file. Where some responses of a set have labels of some aspects only, each is judged by the
aspects that it has labels for; elsewhere by all, as assay eval does. report.md and report.json contain no text of a
response.`
}

// Run is called by kong.
func (c *reportCmd) Run(a *cli.App) error {
	if min(c.Examples, c.Resamples) < 0 || len(c.Precisions) == 0 {
		return cli.Usage(errors.New("--examples and --resamples take 0 or more, --precisions at least one"))
	}
	ctx, stop := a.UntilSignal()
	defer stop()
	sets, err := c.readSets()
	if err != nil {
		return err
	}
	harmless, err := flags.Bags("--harmless", c.Harmless)
	if err != nil {
		return err
	}
	train, err := flags.Bags("--train", c.Train)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return cli.Usage(fmt.Errorf("--out: %w", err))
	}
	in, err := c.measure(ctx, a, sets, harmless)
	if err != nil {
		return err
	}
	in.Resamples, in.Seed, in.Date = c.Resamples, c.Seed, time.Now().UTC().Format(time.DateOnly)
	if in.NoBaselines = "--no-baselines"; c.Baselines {
		in.NoBaselines = ""
		in.Baselines, err = c.baselines(ctx, a, in.Sets, train)
		if canceled := ctx.Err(); canceled != nil {
			return canceled
		}
		if err != nil { // without PyPI, the rest of the report is still useful
			in.NoBaselines = "their Python packages could not be installed, or failed"
			a.Log.Warn().Err(err).Msg("no baselines; pip needs an index with their packages (PIP_INDEX_URL)")
		}
	}
	r, err := report.New(in)
	if err != nil {
		return err
	}
	return c.write(a, r, in)
}

// reportSet is a set before scoring.
type reportSet struct {
	name   string
	bags   []bag.Bag
	fields []map[string]string // of each bag
}

// readSets reads the bag files with their other fields.
func (c *reportCmd) readSets() (sets []reportSet, err error) {
	for _, path := range c.Sets {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, cli.Usage(err)
		}
		s := reportSet{name: strings.TrimSuffix(filepath.Base(path), ".jsonl")}
		if slices.ContainsFunc(sets, func(other reportSet) bool { return other.name == s.name }) {
			return nil, cli.Usage(fmt.Errorf("%s: another set has this name; rename the file", path))
		}
		n := 0
		for line := range bytes.Lines(text) {
			if n++; len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			b, err := bag.Decode(line)
			var all map[string]any
			if err = cmp.Or(err, json.Unmarshal(line, &all)); err != nil {
				return nil, cli.Usage(fmt.Errorf("%s: line %d: %w", path, n, err))
			}
			fields := map[string]string{}
			for _, name := range c.Fields {
				if value, ok := all[name].(string); ok && value != "" {
					fields[name] = value
				}
			}
			s.bags, s.fields = append(s.bags, b), append(s.fields, fields)
		}
		sets = append(sets, s)
	}
	return sets, nil
}

// measure scores the sets in each precision.
func (c *reportCmd) measure(ctx context.Context, a *cli.App, sets []reportSet, harmless []bag.Bag) (in report.Input, err error) {
	var first [][]localmodel.ScoredBag
	for i, precision := range c.Precisions {
		a.Log.Info().Str("precision", precision).Msg("scoring")
		s := reportScorer{reportCmd: c, precision: encoder.Precision(precision)}
		all, err := s.open(ctx, append(slices.Clone(sets), reportSet{bags: harmless}))
		if ctx.Err() != nil || i == 0 && err != nil {
			return in, err
		}
		p := report.Precision{Name: precision, AUROC: map[string]float64{}}
		if err != nil { // int8 is refused for some models, and not every processor has it
			p.Error = err.Error()
			in.Precisions = append(in.Precisions, p)
			continue
		}
		if i == 0 {
			first = all
			in.Header = report.Header{Model: filepath.Base(s.dir), Version: s.version, Precision: precision, Threshold: s.evaluator.Threshold()}
			if aspects := s.evaluator.Aspects; len(aspects) == 1 {
				in.LengthSlope = aspects[0].LengthSlope
			}
			if len(c.Harmless) > 0 {
				in.Harmless = []report.Bag{}
			}
			for _, b := range all[len(sets)] {
				if scores, harmless := s.harmless(b); harmless {
					in.Harmless = append(in.Harmless, report.Bag{ID: b.ID, Harmless: true, BagScores: scores})
				}
			}
		}
		for k, set := range sets {
			judged := s.judge(set, all[k])
			if i == 0 {
				in.Sets = append(in.Sets, judged)
			}
			if auroc := judged.AUROC(); !math.IsNaN(auroc) {
				p.AUROC[set.name] = auroc
			}
			for n, b := range all[k] {
				p.MaxReward = max(p.MaxReward, math.Abs(b.Reward-first[k][n].Reward))
			}
		}
		in.Precisions = append(in.Precisions, p)
	}
	return in, nil
}

// reportScorer scores sets in one precision.
type reportScorer struct {
	*reportCmd
	precision    encoder.Precision
	dir, version string
	evaluator    localmodel.Evaluator
}

// open loads the model and scores all bags.
func (s *reportScorer) open(ctx context.Context, sets []reportSet) (out [][]localmodel.ScoredBag, err error) {
	m, err := localmodel.Config{Model: s.Model, Compute: localmodel.Compute{Precision: s.precision, Device: s.Device, Threads: s.Threads}}.Open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	model, err := m.Load(ctx, rewardmodel.ScorerConfig{MaxInstances: math.MaxInt32, MaxQueueTokens: localmodel.UnboundedQueue}, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, model.Close()) }()
	s.dir, s.evaluator = m.Dir, m.Evaluator(ctx, model)
	if s.version, err = m.Version(ctx); err != nil {
		return nil, err
	}
	const request = 256
	for _, set := range sets {
		var scored []localmodel.ScoredBag
		for part := range slices.Chunk(set.bags, request) {
			more, err := s.evaluator.Score(ctx, part)
			if err != nil {
				return nil, err
			}
			scored = append(scored, more...)
		}
		out = append(out, scored)
	}
	return out, nil
}

// harmless reports whether the labels of a response say that it complies with every aspect.
func (s *reportScorer) harmless(b localmodel.ScoredBag) (eval.BagScores, bool) {
	scores, ok := s.evaluator.OfVerdict(b)
	return scores, ok && scores.Label == bag.Compliant
}

// judge relates the scores of a set to its labels.
func (s *reportScorer) judge(set reportSet, scored []localmodel.ScoredBag) report.Set {
	out := report.Set{Name: set.name}
	of := s.evaluator.OfVerdict
	for _, b := range scored {
		if _, ok := s.evaluator.OfVerdict(b); !ok {
			of = s.evaluator.OfLabels
			scores, labeled := of(b)
			out.Partial = out.Partial || labeled && scores.Label == bag.Compliant
		}
	}
	for i, b := range scored {
		scores, ok := of(b)
		if !ok || b.Comparison != "" {
			out.Skipped++
			continue
		}
		_, harmless := s.harmless(b)
		out.Bags = append(out.Bags, report.Bag{ID: b.ID, Text: textOf(b.Bag), Fields: set.fields[i], Harmless: harmless, BagScores: scores})
	}
	for _, aspect := range s.evaluator.Aspects {
		if len(s.evaluator.Aspects) == 1 {
			break
		}
		labeled := report.Aspect{Name: aspect.Name, Threshold: aspect.Threshold(rewardmodel.AggregateMax)}
		for _, b := range scored {
			if scores, ok := s.evaluator.OfAspect(b, aspect.Name); ok {
				labeled.Bags = append(labeled.Bags, scores)
			}
		}
		if len(labeled.Bags) > 0 {
			out.Aspects = append(out.Aspects, labeled)
		}
	}
	return out
}

// baselineText is a text with its label.
type baselineText struct {
	Text      string `json:"text"`
	Violation bool   `json:"violation"`
}

// baselines scores the sets with other classifiers.
func (c *reportCmd) baselines(ctx context.Context, a *cli.App, sets []report.Set, train []bag.Bag) ([]report.Baseline, error) {
	out, err := filepath.Abs(c.Out)
	if err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(out, "texts-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	var input struct {
		Texts []string       `json:"texts"`
		Train []baselineText `json:"train"`
	}
	for _, s := range sets {
		for _, b := range s.Bags {
			input.Texts = append(input.Texts, b.Text)
		}
	}
	for _, b := range train {
		input.Train = append(input.Train, baselineText{textOf(b), b.Verdict() == bag.Violation})
	}
	inputFile, scoresFile := filepath.Join(work, "input.json"), filepath.Join(work, "scores.json")
	if err := writeJSON(inputFile, input); err != nil {
		return nil, err
	}
	dir := bench.Dir{Path: filepath.Join(out, "baselines"), Python: c.Python, Notify: func(message string) { a.Log.Info().Msg(message) }}
	if err := dir.Baselines(ctx, inputFile, scoresFile); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(scoresFile)
	if err != nil {
		return nil, err
	}
	var scores map[string][]float64
	if err := json.Unmarshal(data, &scores); err != nil {
		return nil, err
	}
	return report.BaselinesOf(sets, scores)
}

// textOf is what is scored of a bag, as one text.
func textOf(b bag.Bag) string { return strings.Join(b.Texts(), "\n") }

// write writes the files of the report.
func (c *reportCmd) write(a *cli.App, r report.Report, in report.Input) error {
	markdown := filepath.Join(c.Out, "report.md")
	err := errors.Join(writeJSON(filepath.Join(c.Out, "report.json"), r), durable.WriteFile(markdown, []byte(r.Markdown()), 0o644))
	if c.Examples > 0 {
		err = errors.Join(err, writeJSON(filepath.Join(c.Out, "examples.json"), report.WrongOf(in.Sets, in.Threshold, c.Examples)))
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.Stdout, markdown)
	return err
}

func writeJSON(path string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(path, append(data, '\n'), 0o644)
}
