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

    assay eval --bags labelled.jsonl --model models/default

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

	room := m.Checkpoint.MaxLength() - m.Tokenizer.Special()
	length := m.Tokenizer.Counter(a.Context)
	shown := a.NewProgress("bags", -1)
	var scores []eval.BagScores
	for batch, err := range batches(c.read(a), evalBatch) {
		if err != nil {
			return fmt.Errorf("--bags: %w", err)
		}
		scored, err := scoreBags(a.Context, model, batch, room, length)
		if err != nil {
			return err
		}
		scores = append(scores, scored...)
		shown.Add(len(batch), len(batch))
	}
	shown.Finish()
	threshold := model.Threshold(rewardmodel.AggregateMax)
	if c.Threshold != nil {
		threshold = *c.Threshold
	}
	report, err := eval.Evaluate(scores, threshold, eval.Bootstrap{Resamples: c.Resamples, Seed: c.Seed})
	if err != nil {
		return err
	}
	line, err := json.Marshal(report)
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

// scoreBags scores each instance of the bags. Instances have at most room
// tokens.
func scoreBags(ctx context.Context, s scorer, bags []bag.Bag, room int, length func(string) (int, error)) ([]eval.BagScores, error) {
	out := make([]eval.BagScores, len(bags))
	items := make([]rewardmodel.Item, len(bags))
	for i, b := range bags {
		segments, err := b.Segments(ctx, room, length)
		if err != nil {
			return nil, err
		}
		out[i] = eval.BagScores{Label: b.Label, Gold: b.Gold(segments)}
		if len(b.Spans) > 0 {
			out[i].GoldSpans, out[i].Spans = b.Spans, make([][2]int, len(segments))
		}
		items[i] = rewardmodel.Item{ID: b.ID, Instances: make([]string, len(segments))}
		for k, segment := range segments {
			items[i].Instances[k] = segment.Text
			if len(b.Spans) > 0 {
				out[i].Spans[k] = segment.Span
			}
		}
	}
	answer, err := s.Score(ctx, rewardmodel.Request{Responses: items, Options: rewardmodel.Options{Instances: new(true)}})
	if err != nil {
		return nil, err
	}
	for i, result := range answer.Results {
		out[i].Violations = make([]float64, len(result.Instances))
		for k, instance := range result.Instances {
			out[i].Violations[k] = instance.Violation
		}
	}
	return out, nil
}
