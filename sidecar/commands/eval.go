package commands

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"

	"github.com/go-json-experiment/json"

	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/eval"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

// Eval evaluates a model on bags.
type Eval struct {
	Bags      []string `required:"" placeholder:"FILE" help:"Bag files (JSONL) to evaluate on."`
	SkipBad   bool     `help:"Log and skip invalid lines instead of failing with exit code 2."`
	Threshold *float64 `help:"Decision threshold in [0,1]; default: that of the checkpoint."`
	Resamples int      `default:"1000" help:"Bootstrap resamples of the bags for the 95% confidence intervals; 0: no intervals."`
	Seed      uint64   `default:"0" help:"Seed of the bootstrap."`
	localmodel.Flags
}

// Help is shown by --help.
func (*Eval) Help() string {
	return `Example:

    assay eval --bags labeled.jsonl --model models/default

Prints one JSON object of metrics in [0,1]; "intervals" has the confidence interval of each. Instance and
witness metrics need bags with "witness" or "spans"; span metrics need "spans".`
}

// Run is called by kong.
func (c *Eval) Run(a *cli.App) (err error) {
	if t := c.Threshold; t != nil && !(*t >= 0 && *t <= 1) {
		return cli.Usage(fmt.Errorf("--threshold is %v; it must be in [0,1]", *t))
	}
	if c.Resamples < 0 {
		return cli.Usage(fmt.Errorf("--resamples is %d; give 0 or more", c.Resamples))
	}
	m, err := c.Flags.Config().Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	model, err := m.Load(a.Context, rewardmodel.ScorerConfig{MaxInstances: math.MaxInt32, MaxQueueTokens: localmodel.UnboundedQueue}, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, model.Close()) }()

	e := evaluation{Evaluator: m.Evaluator(a.Context, model)}
	shown := a.NewProgress("bags", -1)
	for batch, err := range batches(c.read(a), evalBatch) {
		if err != nil {
			return fmt.Errorf("--bags: %w", err)
		}
		if err := e.add(a.Context, batch); err != nil {
			return err
		}
		shown.Add(len(batch), len(batch))
	}
	shown.Finish()
	report, err := e.report(c.Threshold, eval.Bootstrap{Resamples: c.Resamples, Seed: c.Seed})
	if err != nil {
		return err
	}
	line, err := json.Marshal(report, json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = a.Stdout.Write(append(line, '\n'))
	return err
}

// read yields the bags of all files.
func (c *Eval) read(a *cli.App) iter.Seq2[bag.Bag, error] {
	return func(yield func(bag.Bag, error) bool) {
		for _, name := range c.Bags {
			file, err := os.Open(name)
			if err != nil {
				yield(bag.Bag{}, err)
				return
			}
			for b, err := range bag.Read(bufio.NewReader(file)) {
				var bad *bag.LineError
				if c.SkipBad && errors.As(err, &bad) {
					a.ReportSkipped(fmt.Errorf("%s: %w", name, err))
					continue
				}
				if err != nil {
					err = fmt.Errorf("%s: %w", name, err)
				}
				if !yield(b, err) || err != nil {
					file.Close()
					return
				}
			}
			file.Close()
		}
	}
}

// evalBatch is the number of bags per request.
const evalBatch = 256

// batches groups the bags of a sequence; an error ends it.
func batches(bags iter.Seq2[bag.Bag, error], size int) iter.Seq2[[]bag.Bag, error] {
	return func(yield func([]bag.Bag, error) bool) {
		var batch []bag.Bag
		for b, err := range bags {
			if err != nil {
				yield(nil, err)
				return
			}
			if batch = append(batch, b); len(batch) == size {
				if !yield(batch, nil) {
					return
				}
				batch = nil
			}
		}
		if len(batch) > 0 {
			yield(batch, nil)
		}
	}
}

// evaluation collects the scores of bags for each aspect of a model.
type evaluation struct {
	localmodel.Evaluator
	verdicts []eval.BagScores   // of whole responses
	bags     [][]eval.BagScores // by aspect of several, of those that are labeled for it
}

// add scores bags.
func (e *evaluation) add(ctx context.Context, bags []bag.Bag) error {
	scored, err := e.Score(ctx, bags)
	if err != nil {
		return err
	}
	if e.bags == nil {
		e.bags = make([][]eval.BagScores, len(e.Aspects))
	}
	for _, b := range scored {
		if scores, ok := e.OfVerdict(b); ok {
			e.verdicts = append(e.verdicts, scores)
		}
		if len(e.Aspects) == 1 {
			continue
		}
		for i, aspect := range e.Aspects {
			if scores, ok := e.OfAspect(b, aspect.Name); ok {
				e.bags[i] = append(e.bags[i], scores)
			}
		}
	}
	return nil
}

// evalReport is the report of a model with several aspects: the metrics of its verdicts on whole responses, if any is
// known, and those of each aspect that has labels.
type evalReport struct {
	eval.Report
	Aspects map[string]eval.Report
}

// MarshalJSON returns the flat object of the verdicts, with the others under "aspects".
func (r evalReport) MarshalJSON() ([]byte, error) {
	flat, err := r.Report.MarshalJSON()
	if err != nil || len(r.Aspects) == 0 {
		return flat, err
	}
	aspects, err := json.Marshal(r.Aspects, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	if r.Metrics == nil {
		return fmt.Appendf(nil, `{"aspects":%s}`, aspects), nil
	}
	return fmt.Appendf(nil, `{"aspects":%s,%s`, aspects, flat[1:]), nil
}

// report evaluates at the thresholds of the model, or at the given one if the model has a single aspect.
func (e *evaluation) report(threshold *float64, intervals eval.Bootstrap) (out evalReport, err error) {
	t := e.Threshold()
	if threshold != nil {
		if t = *threshold; len(e.Aspects) > 1 {
			return out, cli.Usage(errors.New("--threshold applies to a model with one aspect; change the thresholds in its assay.json"))
		}
	}
	out.Aspects = map[string]eval.Report{}
	for i, aspect := range e.Aspects {
		if e.bags == nil || len(e.bags[i]) == 0 {
			continue
		}
		if out.Aspects[aspect.Name], err = eval.Evaluate(e.bags[i], aspect.Threshold(rewardmodel.AggregateMax), intervals); err != nil {
			return out, fmt.Errorf("aspect %s: %w", aspect.Name, err)
		}
	}
	if len(e.verdicts) > 0 || len(out.Aspects) == 0 { // no bag may have the labels of all aspects
		out.Report, err = eval.Evaluate(e.verdicts, t, intervals)
	}
	return out, err
}
