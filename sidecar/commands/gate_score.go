package commands

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/gate"
	"assay/rewardmodel/logistic"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

// gateSets are the sets that the gate compares models on.
type gateSets struct{ holdout, regression, probe gateSet }

func (s *gateSets) all() []*gateSet { return []*gateSet{&s.holdout, &s.regression, &s.probe} }

// gateSet is a set of responses and, once scored, the margins of both models.
type gateSet struct {
	items              []rewardmodel.Item
	violation          []bool // the labels; nil if the set has none
	current, candidate gate.Margins
}

func (s gateSet) bags() gate.Bags {
	return gate.Bags{Violation: s.violation, Current: s.current, Candidate: s.candidate}
}

// readLabelled reads a bag file and skips empty responses.
func readLabelled(a *cli.App, flag, name string) (gateSet, error) {
	var set gateSet
	for b, err := range (&Eval{Bags: []string{name}}).read(a) {
		if err != nil {
			return set, cli.Usage(fmt.Errorf("%s: %w", flag, err))
		}
		if it := localmodel.ItemOf(b); hasText(it) {
			set.items = append(set.items, it)
			set.violation = append(set.violation, b.Label == bag.Violation)
		}
	}
	if len(set.items) == 0 {
		return set, cli.Usage(fmt.Errorf("%s: %s has no bags with text; give a bag file with labelled responses", flag, name))
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

// current sets the current model's margins of every response.
func (s gateScorer) current(ctx context.Context, dir string, allowUntrained bool) (gate.Model, error) {
	model, margins, err := s.score(ctx, dir, allowUntrained)
	if err != nil {
		return model, fmt.Errorf("--current: %w", err)
	}
	for i, set := range s.sets.all() {
		set.current = margins[i]
	}
	return model, nil
}

// reference returns the margins of an anchor on one set; nil without an anchor or a set.
func (s gateScorer) reference(ctx context.Context, flag, dir string, set gateSet) (*gate.Reference, error) {
	if dir == "" || len(set.items) == 0 {
		return nil, nil
	}
	s.sets = &gateSets{holdout: set}
	model, margins, err := s.score(ctx, dir, true) // an untrained anchor is a low bar, not an error
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return &gate.Reference{Model: model, Margins: margins[0]}, nil
}

// candidate sets the candidate's margins of every response. They are NaN if its weights or scores are not finite; the
// gate rejects it for that.
func (s gateScorer) candidate(ctx context.Context, dir string) (gate.Model, error) {
	model, margins, err := s.score(ctx, dir, false)
	if errors.Is(err, rewardmodel.ErrModel) || errors.Is(err, checkpoint.ErrNotFinite) {
		s.app.Log.Warn().Err(err).Msg("the candidate has non-finite weights or scores")
		margins, err = nil, nil
		for _, set := range s.sets.all() {
			margins = append(margins, nanMargins(len(set.items)))
		}
	}
	if err != nil {
		return model, fmt.Errorf("--candidate: %w", err)
	}
	for i, set := range s.sets.all() {
		set.candidate = margins[i]
	}
	return model, nil
}

// score returns the margins of each set. If it fails after the model was opened, out has the fields read until then.
func (s gateScorer) score(ctx context.Context, dir string, allowUntrained bool) (out gate.Model, all []gate.Margins, err error) {
	m, err := localmodel.Config{Model: dir, AllowUntrained: allowUntrained, Compute: s.compute}.Open()
	if err != nil {
		return out, nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if out.Version, err = m.Version(ctx); err != nil {
		return out, nil, err
	}
	first := m.Aspects()[0]
	out.Thresholds, out.Calibration, out.Untrained = first.Thresholds, first.Calibration, !m.Checkpoint.HasClassifier()
	model, err := m.Load(ctx, rewardmodel.ScorerConfig{
		MaxInstances: math.MaxInt32, MaxQueueTokens: localmodel.UnboundedQueue,
		CacheBytes: 64 << 20, // the same responses may be in several sets
	}, nil)
	if err != nil {
		return out, nil, err
	}
	defer func() { err = errors.Join(err, model.Close()) }()
	for _, set := range s.sets.all() {
		margins, err := s.margins(ctx, model, set.items)
		if err != nil {
			return out, nil, err
		}
		all = append(all, margins)
	}
	return out, all, nil
}

// margins scores responses as the service would.
func (s gateScorer) margins(ctx context.Context, model scorer, items []rewardmodel.Item) (gate.Margins, error) {
	out := gate.Margins{}
	if len(items) == 0 {
		return out, nil
	}
	shown := s.app.NewProgress("responses", -1)
	defer shown.Finish()
	for at := 0; at < len(items); at += evalBatch {
		batch := items[at:min(at+evalBatch, len(items))]
		answer, err := model.Score(ctx, rewardmodel.Request{Responses: batch})
		if err != nil {
			return nil, err
		}
		for i, result := range answer.Results {
			instances := instanceMargins(batch[i], result)
			for _, a := range rewardmodel.Aggregates() {
				out[a] = append(out[a], a.Margin(instances, rewardmodel.DefaultTopK))
			}
		}
		shown.Add(len(batch), len(batch))
	}
	return out, nil
}

// instanceMargins are the logits of the violations of all instances that are not blank.
func instanceMargins(it rewardmodel.Item, r rewardmodel.Result) []float32 {
	var out []float32
	for i, instance := range r.Instances {
		if it.Instances != nil && strings.TrimSpace(it.Instances[i]) == "" {
			continue
		}
		out = append(out, float32(logistic.Logit(instance.Violation)))
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
