package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"assay/rewardmodel"
	"assay/rewardmodel/encoder"
	"assay/sidecar/localmodel"
)

// model is what opening, loading and running a checkpoint found.
type model struct {
	dir, version string
	created      time.Time // zero: unknown
	checksums    int       // files whose checksums match
	precision    encoder.Precision
	bytes        int64         // of the loaded weights
	load, score  time.Duration // of the model, and of one sentence
	reward       float64
	err          error
}

// readModel opens the checkpoint, verifies its checksums, loads it and scores a sentence, as the service does.
func readModel(ctx context.Context, cfg localmodel.Config, scoring rewardmodel.ScorerConfig) (m model) {
	m.err = m.read(ctx, cfg, scoring)
	return m
}

func (m *model) read(ctx context.Context, cfg localmodel.Config, scoring rewardmodel.ScorerConfig) (err error) {
	opened, err := cfg.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	m.dir, m.created = opened.Dir, opened.Checkpoint.Manifest.Created
	if m.version, err = opened.Version(ctx); err != nil {
		return fmt.Errorf("--model %s: %w", m.dir, err)
	}
	torch, err := cfg.Runtime()
	if err != nil {
		return err
	}
	defer torch.Close()
	if m.bytes, err = torch.Bytes(opened.Checkpoint, cfg.Precision); err != nil {
		return err
	}
	start := time.Now()
	loaded, err := opened.Start(ctx, torch, scoring, nil)
	if err != nil {
		return fmt.Errorf("--model %s: %w", m.dir, err)
	}
	defer func() { err = errors.Join(err, loaded.Close()) }()
	m.load, m.checksums, m.precision = time.Since(start), len(opened.Checkpoint.Manifest.SHA256), loaded.Encoder.Precision()
	start = time.Now()
	response, err := loaded.Score(ctx, rewardmodel.Request{Responses: []rewardmodel.Item{{Response: new("Thank you for asking.")}}})
	if err != nil {
		return fmt.Errorf("--model %s: scoring a sentence: %w", m.dir, err)
	}
	m.score, m.reward = time.Since(start), response.Results[0].Reward
	return nil
}

func (m model) findings(now time.Time) []Finding {
	if m.err != nil {
		return []Finding{{"model", Error, m.err.Error(), "see Starting in docs/how-to/troubleshooting.md for this message, or give another --model"}}
	}
	checksums := "no checksums in assay.json"
	if m.checksums > 0 {
		checksums = fmt.Sprintf("%d checksums match", m.checksums)
	}
	detail := fmt.Sprintf("%s (%s) in %s: %s; loaded in %s, one sentence scored in %s with reward %.3g",
		m.version, m.precision, m.dir, checksums, rounded(m.load), rounded(m.score), m.reward)
	found := []Finding{{"model", OK, detail, ""}}
	if m.version == localmodel.Untrained {
		found = []Finding{{"model", Warning, detail + ": a base model, whose scores are meaningless", "train it with assay train --init, and serve the result"}}
	}
	if m.created.After(now) {
		found = append(found, Finding{"clock", Warning, fmt.Sprintf("the model was created at %s, which is in the future", m.created.UTC().Format(time.RFC3339)), fixClock})
	}
	return found
}

// rounded formats a duration with about three significant digits.
func rounded(d time.Duration) string {
	for unit := time.Second; unit >= time.Microsecond; unit /= 10 {
		if d >= 100*unit {
			return d.Round(unit).String()
		}
	}
	return d.String()
}
