package localmodel

import (
	"context"
	"fmt"
	"math"
	"slices"

	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/eval"
	"assay/rewardmodel/logistic"
)

// Evaluator scores labeled bags and relates the scores of their instances to the labels.
type Evaluator struct {
	Aspects []rewardmodel.Aspect
	Room    int                       // tokens of an instance
	Length  func(string) (int, error) // of a text, in tokens
	Scorer  interface {
		Score(context.Context, rewardmodel.Request) (rewardmodel.ScoreResponse, error)
	}
}

// Evaluator returns the evaluator of the loaded model. It stops counting tokens when ctx is done.
func (m *Opened) Evaluator(ctx context.Context, loaded *Loaded) Evaluator {
	return Evaluator{
		Aspects: loaded.Aspects(), Room: m.Checkpoint.MaxLength() - m.Tokenizer.Special(), Length: m.Tokenizer.Counter(ctx), Scorer: loaded,
	}
}

// ScoredBag is a labeled bag with the scores of its instances.
type ScoredBag struct {
	bag.Bag
	Reward    float64
	segments  []bag.Segment
	instances []rewardmodel.Instance
}

// Score scores each instance of the bags.
func (e Evaluator) Score(ctx context.Context, bags []bag.Bag) ([]ScoredBag, error) {
	out := make([]ScoredBag, len(bags))
	items := make([]rewardmodel.Item, len(bags))
	for i, b := range bags {
		segments, err := b.Segments(ctx, e.Room, e.Length)
		if err != nil {
			return nil, err
		}
		out[i] = ScoredBag{Bag: b, segments: segments}
		items[i] = ItemOf(b)
	}
	answer, err := e.Scorer.Score(ctx, rewardmodel.Request{Responses: items, Options: rewardmodel.Options{
		Instances: new(true), Aspects: true,
	}})
	if err != nil {
		return nil, err
	}
	for i, result := range answer.Results {
		if len(result.Instances) != len(out[i].segments) {
			return nil, fmt.Errorf("bag %q has %d instances and %d scores", bags[i].ID, len(out[i].segments), len(result.Instances))
		}
		out[i].Reward, out[i].instances = result.Reward, result.Instances
	}
	return out, nil
}

// OfAspect returns the scores of an aspect, and false if the bag has no label for it.
func (e Evaluator) OfAspect(b ScoredBag, aspect string) (eval.BagScores, bool) {
	label := b.LabelFor(aspect, len(e.Aspects))
	out := b.scores(label, func(i rewardmodel.Instance) float64 { return i.Aspects[aspect] })
	for _, a := range e.Aspects {
		if shift := a.LengthShift(rewardmodel.AggregateMax, b.scored()); a.Name == aspect && shift > 0 {
			out.Corrected = new(logistic.Sigmoid(logistic.Logit(out.Violation()) - shift))
		}
	}
	return out, label != ""
}

// OfVerdict returns the scores of the whole response, and false if its labels do not say whether it violates any aspect
// that counts. Threshold is their threshold.
func (e Evaluator) OfVerdict(b ScoredBag) (eval.BagScores, bool) {
	if len(e.Aspects) == 1 {
		return e.OfAspect(b, e.Aspects[0].Name)
	}
	counted := e.counted(func(rewardmodel.Aspect) bool { return true })
	names := make([]string, len(counted))
	for i, a := range counted {
		names[i] = a.Name
	}
	label := b.VerdictOn(names)
	return b.worst(label, counted), label != ""
}

// OfLabels is OfVerdict by the aspects that the bag has a label for; it is false if the model has none of them. The only
// aspect of a model, if it has no name, is that of all labels.
func (e Evaluator) OfLabels(b ScoredBag) (eval.BagScores, bool) {
	if len(e.Aspects) == 1 && e.Aspects[0].Name == rewardmodel.DefaultAspect {
		b.Label = b.Verdict()
	}
	if len(e.Aspects) == 1 {
		return e.OfAspect(b, e.Aspects[0].Name)
	}
	label := bag.Compliant
	labeled := e.counted(func(a rewardmodel.Aspect) bool {
		of := b.LabelFor(a.Name, len(e.Aspects))
		if of == bag.Violation {
			label = of
		}
		return of != ""
	})
	if b.Label == bag.Violation && label == bag.Compliant { // it does not say of which aspect
		return e.OfVerdict(b)
	}
	return b.worst(label, labeled), len(labeled) > 0
}

// Threshold is the decision threshold of the scores of whole responses, which are corrected for their lengths.
func (e Evaluator) Threshold() float64 {
	if len(e.Aspects) == 1 {
		return e.Aspects[0].Threshold(rewardmodel.AggregateMax)
	}
	return 0.5
}

// counted are the aspects that affect the verdict and are chosen.
func (e Evaluator) counted(chosen func(rewardmodel.Aspect) bool) (out []rewardmodel.Aspect) {
	for _, a := range e.Aspects {
		if a.Weight > 0 && chosen(a) {
			out = append(out, a)
		}
	}
	return out
}

// scores are the scores of the instances with what the label and the gold marks say about them.
func (b ScoredBag) scores(label bag.Label, violation func(rewardmodel.Instance) float64) eval.BagScores {
	out := eval.BagScores{Label: label, Comparison: b.Comparison, Gold: b.Gold(b.segments), Violations: make([]float64, len(b.instances))}
	if label == bag.Compliant { // what is marked violates another aspect
		out.Gold = make([]bool, len(b.segments))
	}
	if len(b.Spans) > 0 {
		out.GoldSpans = b.Spans
		for _, segment := range b.segments {
			out.Spans = append(out.Spans, segment.Span)
		}
	}
	for k, instance := range b.instances {
		out.Violations[k] = violation(instance)
	}
	return out
}

// scored is the number of instances that were scored: blank ones are not.
func (b ScoredBag) scored() (n int) {
	for _, instance := range b.instances {
		if instance.Aspects != nil {
			n++
		}
	}
	return n
}

// worst are the scores in the aspect that is violated most. Those of the instances do not depend on the length of the bag.
func (b ScoredBag) worst(label bag.Label, aspects []rewardmodel.Aspect) eval.BagScores {
	out := b.scores(label, worst(aspects, 1))
	if n := b.scored(); slices.ContainsFunc(aspects, func(a rewardmodel.Aspect) bool { return a.LengthShift(rewardmodel.AggregateMax, n) > 0 }) {
		out.Corrected = new(b.scores(label, worst(aspects, n)).Violation())
	}
	return out
}

// worst returns the violation of an instance in the aspect that it violates most, on a scale where the threshold of each
// aspect, for a bag with the given number of instances, is 0.5.
func worst(aspects []rewardmodel.Aspect, instances int) func(rewardmodel.Instance) float64 {
	return func(instance rewardmodel.Instance) float64 {
		odds := math.Inf(-1)
		for _, a := range aspects {
			v, t := instance.Aspects[a.Name], a.ThresholdOf(rewardmodel.AggregateMax, instances)
			if v == t { // both may be 0 or 1, whose log-odds are infinite
				odds = max(odds, 0)
			} else {
				odds = max(odds, logistic.Logit(v)-logistic.Logit(t))
			}
		}
		return logistic.Sigmoid(odds)
	}
}
