package localmodel

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/tokenizer"
	"assay/sidecar/cli"
)

// Opened is a validated checkpoint whose weights are not loaded yet.
type Opened struct {
	config     Config
	Dir        string
	Checkpoint *checkpoint.Checkpoint
	Tokenizer  *tokenizer.Tokenizer
}

// Open runs the quick checks of the checkpoint, so that an invalid setting fails
// the start early. The caller closes the model.
func (c Config) Open() (*Opened, error) {
	dir, err := Find("--model", c.Model)
	if err != nil {
		return nil, err
	}
	m, err := c.OpenDir(dir)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--model %s: %w", dir, err))
	}
	return m, nil
}

// OpenDir is Open for the path of a checkpoint directory.
func (c Config) OpenDir(dir string) (*Opened, error) {
	ckpt, err := checkpoint.Open(dir)
	if err != nil {
		return nil, err
	}
	m := &Opened{config: c, Dir: dir, Checkpoint: ckpt}
	if err := m.check(); err != nil {
		return nil, errors.Join(err, ckpt.Close())
	}
	return m, nil
}

func (m *Opened) check() error {
	if !m.Checkpoint.HasClassifier() {
		if !m.config.AllowUntrained {
			return errors.New("is a base model without a classifier; train it with assay train --init, or accept meaningless scores with --allow-untrained")
		}
	} else if _, _, err := m.Checkpoint.Labels(); err != nil {
		return err
	}
	tok, err := tokenizerOf(m.Checkpoint)
	if err != nil {
		return err
	}
	if tok.VocabSize() > m.Checkpoint.Config.Vocab {
		return fmt.Errorf("the tokenizer has %d tokens, but the embedding has only %d rows; use the tokenizer of the model", tok.VocabSize(), m.Checkpoint.Config.Vocab)
	}
	m.Tokenizer = tok
	return nil
}

// Untrained is the version of every model with a randomly initialized classification head.
const Untrained = "untrained"

// Version identifies the model: the version in assay.json, or the name of the
// directory and a checksum of its files.
func (m *Opened) Version(ctx context.Context) (string, error) {
	if !m.Checkpoint.HasClassifier() {
		return Untrained, nil
	}
	if v := m.Checkpoint.Manifest.Version; v != "" {
		return v, nil
	}
	absolute, err := filepath.Abs(m.Dir)
	if err != nil {
		return "", err
	}
	content, err := m.Checkpoint.Content(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s-%x", filepath.Base(absolute), content[:4]), nil
}

// Aspects are the rules of the checkpoint with their thresholds and calibrations. Those of unrecognized aggregates are
// ignored.
func (m *Opened) Aspects() []rewardmodel.Aspect {
	var out []rewardmodel.Aspect
	for _, a := range m.Checkpoint.Manifest.AspectList() {
		aspect := rewardmodel.Aspect{
			Name: a.Name, Weight: a.Weight, LengthSlope: a.LengthSlope,
			Thresholds: map[rewardmodel.Aggregate]float64{}, Calibration: rewardmodel.Calibration{},
		}
		for _, kind := range rewardmodel.Aggregates() {
			if t, ok := a.Thresholds[string(kind)]; ok {
				aspect.Thresholds[kind] = t
			}
			if curve, ok := a.Calibration[string(kind)]; ok {
				aspect.Calibration[kind] = curve
			}
		}
		aspect.Thresholds[rewardmodel.AggregateMax] = a.Threshold
		out = append(out, aspect)
	}
	return out
}

// Close closes the files of the checkpoint.
func (m *Opened) Close() error { return m.Checkpoint.Close() }
