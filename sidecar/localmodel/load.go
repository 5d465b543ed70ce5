package localmodel

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"assay/rewardmodel"
	"assay/rewardmodel/encoder"
	"assay/sidecar/cli"
)

// Loaded is a loaded model with its scorer.
type Loaded struct {
	*rewardmodel.Scorer
	runtime *encoder.Runtime // nil if the caller owns it
	Encoder *encoder.Model
}

// Load is Start with a new runtime, which Close closes.
func (m *Opened) Load(ctx context.Context, cfg rewardmodel.ScorerConfig, reg prometheus.Registerer) (*Loaded, error) {
	runtime, err := m.config.Runtime()
	if err != nil {
		return nil, cli.Usage(err)
	}
	s, err := m.Start(ctx, runtime, cfg, reg)
	if err != nil {
		runtime.Close()
		return nil, fmt.Errorf("--model %s: %w", m.Dir, err)
	}
	s.runtime = runtime
	return s, nil
}

// Start reads the weights and verifies the checksums at the same time, runs the model once, and
// starts a scorer with cfg, after it sets the fields that depend on the model.
func (m *Opened) Start(ctx context.Context, runtime *encoder.Runtime, cfg rewardmodel.ScorerConfig, reg prometheus.Registerer) (*Loaded, error) {
	version, err := m.Version(ctx)
	if err != nil {
		return nil, err
	}
	cfg.Version, cfg.MaxLength = version, m.Checkpoint.MaxLength()
	cfg.Aspects, cfg.Combination = m.Aspects(), m.Checkpoint.Manifest.CombinationOrDefault()
	cfg.ContextTokens, cfg.WholeCharacters = m.Checkpoint.MaxContext(), m.Checkpoint.Manifest.WholeCharacters
	s := &Loaded{}
	if s.Encoder, err = m.loadVerified(ctx, runtime); err != nil {
		return nil, err
	}
	if cfg.Numerics, err = s.Encoder.Numerics(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if _, err := s.Encoder.Margins([]rewardmodel.Sequence{{IDs: m.Tokenizer.Frame(m.Tokenizer.IDs("Ready?"))}}); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if s.Scorer, err = rewardmodel.NewScorer(cfg, s.Encoder, m.Tokenizer, reg); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// loadVerified reads the weights. No one uses them before the checksums are verified.
func (m *Opened) loadVerified(ctx context.Context, runtime *encoder.Runtime) (*encoder.Model, error) {
	verified := make(chan error, 1)
	go func() { verified <- m.Checkpoint.VerifySHA256(ctx) }()
	model, err := runtime.Load(m.Checkpoint, m.config.Precision)
	if damage := <-verified; damage != nil { // which also explains any error of the load
		if err == nil {
			damage = errors.Join(damage, model.Close())
		}
		return nil, damage
	}
	return model, err
}

// Close finishes the admitted requests and frees the model.
func (s *Loaded) Close() error {
	if s.Scorer != nil {
		s.Scorer.Close()
	}
	err := s.Encoder.Close()
	if s.runtime != nil {
		s.runtime.Close()
	}
	return err
}
