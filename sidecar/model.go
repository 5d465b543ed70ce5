package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/encoder"
	"assay/rewardmodel/tokenizer"
)

// modelFlags say which model scores and how it is run.
type modelFlags struct {
	Model          string `default:"models/default" placeholder:"DIR" help:"Checkpoint folder, or its name below models/ (${default}); looked for in the working directory, then beside the binary."`
	AllowUntrained bool   `help:"Accept a base model, whose fresh head gives scores without meaning."`
	computeFlags
}

// findModel returns the folder that name, the value of flag, stands for: itself,
// below models/, or what was pulled to there from a repository of that name; in
// the working directory, beside the binary, or beside the binary's folder (as
// with bin/assay).
func findModel(flag, name string) (string, error) {
	bases := []string{""}
	if binary, err := os.Executable(); err == nil && !filepath.IsAbs(name) {
		dir := filepath.Dir(binary)
		bases = append(bases, dir, filepath.Dir(dir))
	}
	var tried []string
	for _, base := range bases {
		for _, dir := range []string{filepath.Join(base, name), filepath.Join(base, "models", name)} {
			if info, err := os.Stat(dir); err == nil && info.IsDir() {
				return dir, nil
			}
			tried = append(tried, dir)
			if filepath.IsAbs(name) {
				break
			}
		}
		if dir := filepath.Join(base, "models", filepath.Base(name)); pulledAs(dir, name) {
			return dir, nil
		}
	}
	return "", usageError{fmt.Errorf("%s %s: no such folder; looked for %s", flag, name, strings.Join(tried, ", "))}
}

// openModel is a checkpoint that was found fit to score with, before its
// weights are read.
type openModel struct {
	flags      modelFlags
	dir        string
	checkpoint *checkpoint.Checkpoint
	tokenizer  *tokenizer.Tokenizer
}

// open checks all that can be checked quickly, so that a wrong setting stops
// the start. The caller closes the model.
func (f modelFlags) open() (*openModel, error) {
	dir, err := findModel("--model", f.Model)
	if err != nil {
		return nil, err
	}
	m, err := f.openFolder(dir)
	if err != nil {
		return nil, usageError{fmt.Errorf("--model %s: %w", dir, err)}
	}
	return m, nil
}

func (f modelFlags) openFolder(dir string) (*openModel, error) {
	ckpt, err := checkpoint.Open(dir)
	if err != nil {
		return nil, err
	}
	m := &openModel{flags: f, dir: dir, checkpoint: ckpt}
	if err := m.check(); err != nil {
		return nil, errors.Join(err, ckpt.Close())
	}
	return m, nil
}

func (m *openModel) check() error {
	if m.checkpoint.Manifest.Context {
		return errors.New(`assay.json has "context": true: a model that reads the prompt as well cannot be run by this version; use one trained without`)
	}
	if !m.checkpoint.HasClassifier() {
		if !m.flags.AllowUntrained {
			return errors.New("is a base model without a classifier; train it with assay train --init, or accept scores without meaning with --allow-untrained")
		}
	} else if _, _, _, err := m.checkpoint.Labels(); err != nil {
		return err
	}
	tok, err := tokenizer.Load(m.dir)
	if err != nil {
		return err
	}
	if tok.VocabSize() > m.checkpoint.Config.Vocab {
		return fmt.Errorf("the tokenizer has %d tokens, the embedding only %d rows; they are of different models", tok.VocabSize(), m.checkpoint.Config.Vocab)
	}
	m.tokenizer = tok
	return nil
}

// untrained is the version of every model with a fresh head.
const untrained = "untrained"

// version names the weights: as assay.json does, or by the folder's name and
// the checksum of what is in it.
func (m *openModel) version(ctx context.Context) (string, error) {
	if !m.checkpoint.HasClassifier() {
		return untrained, nil
	}
	if v := m.checkpoint.Manifest.Version; v != "" {
		return v, nil
	}
	files, err := filepath.Glob(filepath.Join(m.dir, "*.safetensors"))
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, name := range append(files, filepath.Join(m.dir, "config.json")) {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if err := addFile(sum, name); err != nil {
			return "", err
		}
	}
	absolute, err := filepath.Abs(m.dir)
	if err != nil {
		return "", err
	}
	return filepath.Base(absolute) + "-" + hex.EncodeToString(sum.Sum(nil))[:8], nil
}

func addFile(w io.Writer, name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(w, file)
	return err
}

// thresholds are the decision thresholds that the checkpoint comes with.
func (m *openModel) thresholds() map[rewardmodel.Aggregate]float64 {
	thresholds := map[rewardmodel.Aggregate]float64{}
	for name, t := range m.checkpoint.Manifest.Thresholds {
		if a := rewardmodel.Aggregate(name); slices.Contains(rewardmodel.Aggregates(), a) {
			thresholds[a] = t
		}
	}
	thresholds[rewardmodel.AggregateMax] = m.checkpoint.Manifest.Threshold
	return thresholds
}

// calibration is the scale of rewards that the checkpoint comes with. A map of an aggregate that this version does not
// know is left aside.
func (m *openModel) calibration() rewardmodel.Calibration {
	out := rewardmodel.Calibration{}
	for name, curve := range m.checkpoint.Manifest.Calibration {
		if a := rewardmodel.Aggregate(name); slices.Contains(rewardmodel.Aggregates(), a) {
			out[a] = curve
		}
	}
	return out
}

func (m *openModel) close() error { return m.checkpoint.Close() }

// servingModel is a model that scores.
type servingModel struct {
	*rewardmodel.Scorer
	runtime *encoder.Runtime // nil when it is another's
	encoder *encoder.Model
}

// load is start on a libtorch of its own.
func (m *openModel) load(ctx context.Context, cfg rewardmodel.ScorerConfig, reg prometheus.Registerer) (*servingModel, error) {
	runtime, err := m.flags.runtime()
	if err != nil {
		return nil, usageError{err}
	}
	s, err := m.start(ctx, runtime, cfg, reg)
	if err != nil {
		runtime.Close()
		return nil, fmt.Errorf("--model %s: %w", m.dir, err)
	}
	s.runtime = runtime
	return s, nil
}

// start verifies the checksums, reads the weights, runs the model once, and
// starts a scorer with cfg, whose model's fields it fills.
func (m *openModel) start(ctx context.Context, runtime *encoder.Runtime, cfg rewardmodel.ScorerConfig, reg prometheus.Registerer) (*servingModel, error) {
	if err := m.checkpoint.VerifySHA256(ctx); err != nil {
		return nil, err
	}
	version, err := m.version(ctx)
	if err != nil {
		return nil, err
	}
	cfg.Version, cfg.Thresholds, cfg.MaxLength = version, m.thresholds(), m.checkpoint.MaxLength()
	cfg.Calibration = m.calibration()
	s := &servingModel{}
	if s.encoder, err = runtime.Load(m.checkpoint, encoder.Precision(m.flags.Precision)); err != nil {
		return nil, err
	}
	if _, err := s.encoder.Margins([][]int32{m.tokenizer.Frame(m.tokenizer.IDs("Ready?"))}); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if s.Scorer, err = rewardmodel.NewScorer(cfg, s.encoder, m.tokenizer, reg); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// close finishes what was admitted and frees the model.
func (s *servingModel) close() error {
	if s.Scorer != nil {
		s.Scorer.Close()
	}
	err := s.encoder.Close()
	if s.runtime != nil {
		s.runtime.Close()
	}
	return err
}
