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
	"assay/rewardmodel/logistic"
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

	e := evaluation{aspects: model.Aspects(), room: m.Checkpoint.MaxLength() - m.Tokenizer.Special(), length: m.Tokenizer.Counter(a.Context)}
	shown := a.NewProgress("bags", -1)
	for batch, err := range batches(c.read(a), evalBatch) {
		if err != nil {
			return fmt.Errorf("--bags: %w", err)
		}
		if err := e.score(a.Context, model, batch); err != nil {
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
	aspects []rewardmodel.Aspect
	room    int // tokens of an instance
	length  func(string) (int, error)

	verdicts []eval.BagScores   // of whole responses, with instance scores whose threshold is 0.5
	bags     [][]eval.BagScores // by aspect, of those that are labelled for it
}

// score scores each instance of the bags.
func (e *evaluation) score(ctx context.Context, s scorer, bags []bag.Bag) error {
	segments := make([][]bag.Segment, len(bags))
	items := make([]rewardmodel.Item, len(bags))
	for i, b := range bags {
		var err error
		if segments[i], err = b.Segments(ctx, e.room, e.length); err != nil {
			return err
		}
		if items[i] = localmodel.ItemOf(b); b.Messages != nil {
			continue // its turns are context
		}
		items[i].Response, items[i].Instances = nil, make([]string, len(segments[i]))
		for k, segment := range segments[i] {
			items[i].Instances[k] = segment.Text
		}
	}
	answer, err := s.Score(ctx, rewardmodel.Request{Responses: items, Options: rewardmodel.Options{
		Instances: new(true), Aspects: true, Reasoning: rewardmodel.ReasoningScore,
	}})
	if err != nil {
		return err
	}
	for i, result := range answer.Results {
		if len(result.Instances) != len(segments[i]) {
			return fmt.Errorf("bag %q has %d instances and %d scores", bags[i].ID, len(segments[i]), len(result.Instances))
		}
		e.add(bags[i], segments[i], result.Instances)
	}
	return nil
}

// add adds the scores of a bag to the aspects that it is labelled for.
func (e *evaluation) add(b bag.Bag, segments []bag.Segment, instances []rewardmodel.Instance) {
	if e.bags == nil {
		e.bags = make([][]eval.BagScores, len(e.aspects))
	}
	of := func(label bag.Label, violation func(rewardmodel.Instance) float64) eval.BagScores {
		out := eval.BagScores{Label: label, Gold: b.Gold(segments), Violations: make([]float64, len(instances))}
		if label == bag.Compliant { // what is marked violates another aspect
			out.Gold = make([]bool, len(segments))
		}
		if len(b.Spans) > 0 {
			out.GoldSpans = b.Spans
			for _, segment := range segments {
				out.Spans = append(out.Spans, segment.Span)
			}
		}
		for k, instance := range instances {
			out.Violations[k] = violation(instance)
		}
		return out
	}
	for a, aspect := range e.aspects {
		if label := b.LabelFor(aspect.Name, len(e.aspects)); label != "" {
			e.bags[a] = append(e.bags[a], of(label, func(i rewardmodel.Instance) float64 { return i.Aspects[aspect.Name] }))
		}
	}
	if len(e.aspects) == 1 {
		return
	}
	var counted []string
	for _, aspect := range e.aspects {
		if aspect.Weight > 0 {
			counted = append(counted, aspect.Name)
		}
	}
	if verdict := b.VerdictOn(counted); verdict != "" {
		e.verdicts = append(e.verdicts, of(verdict, e.worst))
	}
}

// worst is the violation of an instance in the aspect that it violates most, on a scale where the threshold of each
// aspect is 0.5.
func (e *evaluation) worst(instance rewardmodel.Instance) float64 {
	odds := math.Inf(-1)
	for _, a := range e.aspects {
		if a.Weight == 0 {
			continue
		}
		v, t := instance.Aspects[a.Name], a.Threshold(rewardmodel.AggregateMax)
		if v == t { // both may be 0 or 1, whose log-odds are infinite
			odds = max(odds, 0)
		} else {
			odds = max(odds, logistic.Logit(v)-logistic.Logit(t))
		}
	}
	return logistic.Sigmoid(odds)
}

// evalReport is the report of a model with several aspects: the metrics of its verdicts on whole responses, and those of
// each aspect that has labels.
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
	separator := ","
	if len(r.Metrics) == 0 {
		separator = ""
	}
	return fmt.Appendf(nil, `{"aspects":%s%s%s`, aspects, separator, flat[1:]), nil
}

// report evaluates at the thresholds of the model, or at the given one if the model has a single aspect.
func (e *evaluation) report(threshold *float64, intervals eval.Bootstrap) (out evalReport, err error) {
	if len(e.aspects) == 1 {
		t := e.aspects[0].Threshold(rewardmodel.AggregateMax)
		if threshold != nil {
			t = *threshold
		}
		var bags []eval.BagScores
		if e.bags != nil {
			bags = e.bags[0]
		}
		out.Report, err = eval.Evaluate(bags, t, intervals)
		return out, err
	}
	if threshold != nil {
		return out, cli.Usage(errors.New("--threshold applies to a model with one aspect; change the thresholds in its assay.json"))
	}
	out.Aspects = map[string]eval.Report{}
	for a, aspect := range e.aspects {
		if len(e.bags[a]) == 0 {
			continue
		}
		if out.Aspects[aspect.Name], err = eval.Evaluate(e.bags[a], aspect.Threshold(rewardmodel.AggregateMax), intervals); err != nil {
			return out, fmt.Errorf("aspect %s: %w", aspect.Name, err)
		}
	}
	if len(e.verdicts) > 0 || len(out.Aspects) == 0 { // no bag may have the labels of all aspects
		out.Report, err = eval.Evaluate(e.verdicts, 0.5, intervals)
	}
	return out, err
}
