package commands

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"assay/rewardmodel"
	"assay/rewardmodel/calibration"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/encoder"
	"assay/rewardmodel/train"
	"assay/segmenter"
	"assay/sidecar/localmodel"
)

// storedTypes are the types of --dtype.
var storedTypes = map[string]checkpoint.DType{"fp32": checkpoint.F32, "bf16": checkpoint.BF16, "int8": checkpoint.I8}

// write writes the checkpoint directory. The version is the model's name and a digest of all inputs of the run, so that
// no two models have the same version.
func (c *Train) write(base *checkpoint.Checkpoint, learner *encoder.Learner, aspects []encoder.AspectInit, results []train.Result, digest string, options localmodel.BagOptions) (checkpoint.Manifest, error) {
	tensors, err := learner.Tensors(storedTypes[c.DType])
	if err != nil {
		return checkpoint.Manifest{}, err
	}
	files, err := checkpoint.TokenizerFiles(base.Dir)
	if err != nil {
		return checkpoint.Manifest{}, err
	}
	if path := filepath.Join(base.Dir, regressionFile); isFile(path) {
		files = append(files, path)
	}
	name := c.ModelName
	if name == "" {
		name = filepath.Base(filepath.Clean(c.Out))
	}
	created := time.Now().UTC().Truncate(time.Second)
	id := sha256.Sum256(fmt.Appendf(nil, "%+v %s %s %v", *c, digest, created, results))
	man := checkpoint.Manifest{
		Version: fmt.Sprintf("%s-%s-%s", name, created.Format("20060102"), hex.EncodeToString(id[:4])),
		Created: created, Method: c.Method,
		Segmenter: segmenter.Version, MaxLength: options.MaxLength, Base: baseName(base), Data: c.DataName,
		Combination: base.Manifest.Combination, Aspects: writtenAspects(base, aspects, results),
		Context: options.ContextTokens > 0, ContextTokens: options.ContextTokens,
		WholeCharacters: options.WholeCharacters, NormalizeSpelling: base.Manifest.NormalizeSpelling, DescribeEmoji: base.Manifest.DescribeEmoji,
	}
	for _, result := range results {
		if result.FittedOn != nil {
			man.SigmaMicro, man.SigmaMacro = result.SigmaMicro, result.SigmaMacro
			break
		}
	}
	if first := man.Aspects[0]; len(man.Aspects) == 1 && first.Name == rewardmodel.DefaultAspect {
		man.Threshold, man.Thresholds, man.LengthSlope, man.Calibration, man.Aspects = first.Threshold, first.Thresholds, first.LengthSlope, first.Calibration, nil
	}
	if err := checkpoint.Write(c.Out, learner.Config(), man, tensors, files...); err != nil {
		return checkpoint.Manifest{}, fmt.Errorf("--out: %w", err)
	}
	return man, nil
}

// startAspects returns the aspects of the trained model with what the aspects of base have that they start from.
func startAspects(base *checkpoint.Checkpoint, aspects []encoder.AspectInit) []checkpoint.Aspect {
	had := map[string]checkpoint.Aspect{}
	for _, a := range base.Manifest.AspectList() {
		had[a.Name] = a
	}
	out := make([]checkpoint.Aspect, len(aspects))
	for i, init := range aspects {
		a, known := had[cmp.Or(init.From, init.Name)]
		if !known {
			a = checkpoint.Aspect{Weight: 1, Threshold: checkpoint.DefaultThreshold}
		}
		a.Name = init.Name
		out[i] = a
	}
	return out
}

// writtenAspects returns the aspects of the trained model. One that was not trained keeps what it started from.
func writtenAspects(base *checkpoint.Checkpoint, aspects []encoder.AspectInit, results []train.Result) []checkpoint.Aspect {
	out := startAspects(base, aspects)
	for i, result := range results {
		if result.FittedOn == nil {
			continue
		}
		a := &out[i]
		a.Threshold, a.Thresholds, a.Calibration = result.Thresholds[rewardmodel.AggregateMax], map[string]float64{}, nil
		a.LengthSlope = result.LengthSlope
		if !result.Calibration.Identity() {
			a.Calibration = map[string]calibration.Map{string(rewardmodel.AggregateMax): result.Calibration}
		}
		for aggregate, t := range result.Thresholds {
			a.Thresholds[string(aggregate)] = t
		}
	}
	return out
}

// regressionFile has the labeled responses of the regression set. It is copied from a model to the models that are
// fine-tuned from it.
const regressionFile = "regression.jsonl"

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// baseName is the version of the checkpoint that training initialized from, or its directory's name.
func baseName(base *checkpoint.Checkpoint) string {
	if v := base.Manifest.Version; v != "" {
		return v
	}
	return filepath.Base(filepath.Clean(base.Dir))
}
