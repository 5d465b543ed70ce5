package commands

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/gate"
	"assay/rewardmodel/logistic"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

// gateSets are the sets that the gate compares models on.
type gateSets struct{ holdout, regression, probe gateSet }

func (s *gateSets) all() []*gateSet { return []*gateSet{&s.holdout, &s.regression, &s.probe} }

// gateSet is a set of responses.
type gateSet struct {
	items  []rewardmodel.Item
	labels []feedback.Labels // nil if the set has none
}

// readLabeled reads a bag file and skips empty responses.
func readLabeled(a *cli.App, flag, name string) (gateSet, error) {
	var set gateSet
	for b, err := range (&Eval{Bags: []string{name}}).read(a) {
		if err != nil {
			return set, cli.Usage(fmt.Errorf("%s: %w", flag, err))
		}
		if it := localmodel.ItemOf(b); hasText(it) {
			set.items = append(set.items, it)
			set.labels = append(set.labels, feedback.LabelsOf(b))
		}
	}
	if len(set.items) == 0 {
		return set, cli.Usage(fmt.Errorf("%s: %s has no bags with text; give a bag file with labeled responses", flag, name))
	}
	return set, nil
}

// readProbe reads responses in the format of assay score or of a bag file.
func readProbe(a *cli.App, name string) (gateSet, error) {
	var set gateSet
	from := cli.InputFlags{File: name}
	in, err := from.Open(a)
	if err != nil {
		return set, fmt.Errorf("--probe: %w", err)
	}
	defer in.Close()
	for r, err := range cli.Records(a, from, in, from.Item) {
		if err != nil {
			return set, fmt.Errorf("--probe: %w", err)
		}
		r.Value.TokenOffsets = nil // the gate compares whole responses
		if hasText(r.Value) {
			set.items = append(set.items, r.Value)
		}
	}
	if len(set.items) == 0 {
		return set, cli.Usage(fmt.Errorf("--probe: %s has no responses with text; give a JSONL file of responses", name))
	}
	return set, nil
}

// hasText reports whether an item has text to score. An empty response has a fixed reward, which does not distinguish
// models.
func hasText(it rewardmodel.Item) bool {
	text := strings.Join(it.Instances, "")
	if it.Response != nil {
		text = *it.Response
	}
	for _, m := range it.Messages {
		if m.Role == "assistant" {
			text += m.Content
		}
	}
	return strings.TrimSpace(text) != ""
}

// gateScorer scores the sets with one model after the other, so that only one is in memory.
type gateScorer struct {
	app     *cli.App
	compute localmodel.Compute
	sets    *gateSets
}

// gateModels are the directories of the models that the gate compares; an anchor may be "".
type gateModels struct {
	current, candidate, anchor, regressionAnchor string
	allowUntrained                               bool
}

// scoredSets are the scores of one model on some sets.
type scoredSets struct {
	version     string
	untrained   bool
	aspects     []rewardmodel.Aspect
	combination rewardmodel.Combination // of the aspects
	margins     []setMargins            // of each set
}

// setMargins are the margins of the responses of a set, corrected for their lengths: for each aspect, and of the verdict on
// the whole response, whose threshold is at 0.
type setMargins struct {
	aspects []gate.Margins
	whole   gate.Margins
}

// reference returns the scores of an anchor on one set; nil without an anchor or a set.
func (s gateScorer) reference(ctx context.Context, flag, dir string, set gateSet) (*scoredSets, error) {
	if dir == "" || len(set.items) == 0 {
		return nil, nil
	}
	s.sets = &gateSets{holdout: set}
	out, err := s.score(ctx, dir, true) // an untrained anchor is a low bar, not an error
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return &out, nil
}

// candidate returns the candidate's margins of every response. They are NaN if its weights or scores are not finite; the
// gate rejects it for that.
func (s gateScorer) candidate(ctx context.Context, dir string) (scoredSets, error) {
	out, err := s.score(ctx, dir, false)
	if errors.Is(err, rewardmodel.ErrModel) || errors.Is(err, checkpoint.ErrNotFinite) {
		s.app.Log.Warn().Err(err).Msg("the candidate has non-finite weights or scores")
		out.margins, err = nil, nil
		for _, set := range s.sets.all() {
			nan := setMargins{whole: nanMargins(len(set.items))}
			for range out.aspects {
				nan.aspects = append(nan.aspects, nanMargins(len(set.items)))
			}
			out.margins = append(out.margins, nan)
		}
	}
	return out, err
}

// score returns the margins of each set. If it fails after the model was opened, out has the fields read until then.
func (s gateScorer) score(ctx context.Context, dir string, allowUntrained bool) (out scoredSets, err error) {
	m, err := localmodel.Config{Model: dir, AllowUntrained: allowUntrained, Compute: s.compute}.Open()
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if out.version, err = m.Version(ctx); err != nil {
		return out, err
	}
	out.aspects, out.combination = m.Aspects(), m.Checkpoint.Manifest.CombinationOrDefault()
	out.untrained = !m.Checkpoint.HasClassifier()
	model, err := m.Load(ctx, rewardmodel.ScorerConfig{
		MaxInstances: math.MaxInt32, MaxQueueTokens: localmodel.UnboundedQueue,
		CacheBytes: 64 << 20, // the same responses may be in several sets
	}, nil)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, model.Close()) }()
	for _, set := range s.sets.all() {
		margins, err := s.margins(ctx, model, out.aspects, set.items)
		if err != nil {
			return out, err
		}
		out.margins = append(out.margins, margins)
	}
	return out, nil
}

// margins scores responses as the service would.
func (s gateScorer) margins(ctx context.Context, model scorer, aspects []rewardmodel.Aspect, items []rewardmodel.Item) (setMargins, error) {
	out := setMargins{aspects: make([]gate.Margins, len(aspects)), whole: gate.Margins{}}
	for i := range aspects {
		out.aspects[i] = gate.Margins{}
	}
	if len(items) == 0 {
		return out, nil
	}
	shown := s.app.NewProgress("responses", -1)
	defer shown.Finish()
	for at := 0; at < len(items); at += evalBatch {
		batch := items[at:min(at+evalBatch, len(items))]
		answer, err := model.Score(ctx, rewardmodel.Request{Responses: batch, Options: rewardmodel.Options{Aspects: true}})
		if err != nil {
			return out, err
		}
		for i, result := range answer.Results {
			out.add(batch[i], result, aspects)
		}
		shown.Add(len(batch), len(batch))
	}
	return out, nil
}

// add adds the margins of a response.
func (m setMargins) add(it rewardmodel.Item, r rewardmodel.Result, aspects []rewardmodel.Aspect) {
	const top = rewardmodel.AggregateMax
	worst := math.Inf(-1)
	for i, aspect := range aspects {
		instances := instanceMargins(it, r, aspect.Name)
		for _, a := range rewardmodel.Aggregates() {
			m.aspects[i][a] = append(m.aspects[i][a], a.Margin(instances, rewardmodel.DefaultTopK)-aspect.LengthShift(a, len(instances)))
		}
		if aspect.Weight > 0 {
			worst = max(worst, last(m.aspects[i][top])-logistic.Logit(aspect.Threshold(top)))
		}
	}
	m.whole[top] = append(m.whole[top], min(max(worst, -maxMargin), maxMargin))
}

// maxMargin bounds the margins of verdicts, which a threshold of 0 or 1 makes infinite.
const maxMargin = 100

func last(values []float64) float64 { return values[len(values)-1] }

// instanceMargins are the logits of the violations of one aspect, of all instances that are not blank.
func instanceMargins(it rewardmodel.Item, r rewardmodel.Result, aspect string) []float32 {
	var out []float32
	for i, instance := range r.Instances {
		if it.Instances != nil && strings.TrimSpace(it.Instances[i]) == "" {
			continue
		}
		out = append(out, float32(logistic.Logit(instance.Aspects[aspect])))
	}
	return out
}

// nanMargins are NaN for each of n responses.
func nanMargins(n int) gate.Margins {
	out := gate.Margins{}
	for _, a := range rewardmodel.Aggregates() {
		for range n {
			out[a] = append(out[a], math.NaN())
		}
	}
	return out
}
