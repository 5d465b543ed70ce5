package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/assay-ai/assay/rewardmodel"
	"github.com/assay-ai/assay/rewardmodel/bag"
	"github.com/assay-ai/assay/rewardmodel/checkpoint"
	"github.com/assay-ai/assay/rewardmodel/gate"
)

// gateSets are the sets that the gate compares models on.
type gateSets struct{ holdout, regression, probe gateSet }

// gateSet is a set of responses, and the scores of both models in the end.
type gateSet struct {
	items              []rewardmodel.Item
	violation          []bool // the labels; nil without
	current, candidate gate.Margins
}

func (s gateSet) bags() gate.Bags {
	return gate.Bags{Violation: s.violation, Current: s.current, Candidate: s.candidate}
}

// readLabelled reads a bag file, without the responses that are empty.
func readLabelled(a *app, flag, name string) (gateSet, error) {
	var set gateSet
	for b, err := range (&evalCmd{Bags: []string{name}}).read(a) {
		if err != nil {
			return set, usageError{fmt.Errorf("%s: %w", flag, err)}
		}
		if it := itemOf(b); hasText(it) {
			set.items = append(set.items, it)
			set.violation = append(set.violation, b.Label == bag.Violation)
		}
	}
	if len(set.items) == 0 {
		return set, usageError{fmt.Errorf("%s: %s holds no bags", flag, name)}
	}
	return set, nil
}

// readProbe reads responses in the form of score or of a bag file.
func readProbe(a *app, name string) (gateSet, error) {
	var set gateSet
	from := inputFlags{File: name}
	in, err := from.open(a)
	if err != nil {
		return set, fmt.Errorf("--probe: %w", err)
	}
	defer in.Close()
	for r, err := range records(a, from, in, from.item) {
		if err != nil {
			return set, fmt.Errorf("--probe: %w", err)
		}
		if hasText(r.value) {
			set.items = append(set.items, r.value)
		}
	}
	if len(set.items) == 0 {
		return set, usageError{fmt.Errorf("--probe: %s holds no responses", name)}
	}
	return set, nil
}

// itemOf is the response of a bag as it would be scored.
func itemOf(b bag.Bag) rewardmodel.Item {
	it := rewardmodel.Item{ID: b.ID, Prompt: b.Prompt, Instances: b.Instances}
	for _, m := range b.Messages {
		it.Messages = append(it.Messages, rewardmodel.Message(m))
	}
	if b.Messages == nil && b.Instances == nil {
		it.Response = &b.Response
	}
	return it
}

// hasText tells that there is something to score: an empty response has a fixed reward, by which no model is told from
// another.
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

// gateScorer scores the sets with one model after the other, so that one is in memory at a time.
type gateScorer struct {
	app     *app
	compute computeFlags
	sets    *gateSets
}

// score gives every response of all sets its margins. A candidate whose weights or scores are not finite gets margins
// that say so: to tell is the gate's business.
func (s gateScorer) score(ctx context.Context, flag, dir string, allowUntrained, candidate bool) (out gate.Model, err error) {
	if dir, err = findModel(flag, dir); err != nil {
		return out, err
	}
	m, err := modelFlags{Model: dir, AllowUntrained: allowUntrained, computeFlags: s.compute}.open()
	if err != nil {
		return out, fmt.Errorf("%s: %w", flag, err)
	}
	defer func() { err = errors.Join(err, m.close()) }()
	if out.Version, err = m.version(ctx); err != nil {
		return out, fmt.Errorf("%s: %w", flag, err)
	}
	out.Thresholds, out.Calibration, out.Untrained = m.thresholds(), m.calibration(), !m.checkpoint.HasClassifier()

	var model *servingModel
	model, err = m.load(ctx, rewardmodel.ScorerConfig{MaxInstances: math.MaxInt32, MaxQueueTokens: unbounded}, nil)
	if err == nil {
		defer func() { err = errors.Join(err, model.close()) }()
	}
	for _, set := range []*gateSet{&s.sets.holdout, &s.sets.regression, &s.sets.probe} {
		var margins gate.Margins
		if err == nil {
			margins, err = s.margins(ctx, model, set.items)
		}
		if candidate && (errors.Is(err, rewardmodel.ErrModel) || errors.Is(err, checkpoint.ErrNotFinite)) {
			s.app.log.Warn().Err(err).Msg("the candidate cannot be scored")
			margins, err = noMargins(len(set.items)), nil
		}
		if err != nil {
			return out, fmt.Errorf("%s: %w", flag, err)
		}
		if candidate {
			set.candidate = margins
		} else {
			set.current = margins
		}
	}
	return out, nil
}

// margins scores responses as the service would.
func (s gateScorer) margins(ctx context.Context, model scorer, items []rewardmodel.Item) (gate.Margins, error) {
	shown := s.app.progress("responses", -1)
	defer shown.finish()
	out := gate.Margins{}
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
		shown.add(len(batch), len(batch))
	}
	return out, nil
}

// instanceMargins are the logits of the violations of all instances that count.
func instanceMargins(it rewardmodel.Item, r rewardmodel.Result) []float32 {
	var out []float32
	for i, instance := range r.Instances {
		if it.Instances != nil && strings.TrimSpace(it.Instances[i]) == "" {
			continue
		}
		out = append(out, float32(math.Log(instance.Violation)-math.Log1p(-instance.Violation)))
	}
	return out
}

func noMargins(n int) gate.Margins {
	out := gate.Margins{}
	for _, a := range rewardmodel.Aggregates() {
		for range n {
			out[a] = append(out[a], math.NaN())
		}
	}
	return out
}
