package commands

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/encoder"
	"assay/rewardmodel/train"
	"assay/segmenter"
)

// write writes the checkpoint directory. The version is the model's name and a digest of all inputs of the run, so that
// no two models have the same version.
func (c *Train) write(base *checkpoint.Checkpoint, learner *encoder.Learner, result train.Result, digest string, maxLength int) error {
	dtype := checkpoint.F32
	if c.DType == "bf16" {
		dtype = checkpoint.BF16
	}
	tensors, err := learner.Tensors(dtype)
	if err != nil {
		return err
	}
	files, err := checkpoint.TokenizerFiles(base.Dir)
	if err != nil {
		return err
	}
	if path := filepath.Join(base.Dir, regressionFile); isFile(path) {
		files = append(files, path)
	}
	name := c.ModelName
	if name == "" {
		name = filepath.Base(filepath.Clean(c.Out))
	}
	created := time.Now().UTC().Truncate(time.Second)
	id := sha256.Sum256(fmt.Appendf(nil, "%+v %s %s %v", *c, digest, created, result))
	man := checkpoint.Manifest{
		Version: fmt.Sprintf("%s-%s-%s", name, created.Format("20060102"), hex.EncodeToString(id[:4])),
		Created: created, Method: c.Method,
		Threshold: result.Thresholds[rewardmodel.AggregateMax], Thresholds: map[string]float64{},
		SigmaMicro: result.SigmaMicro, SigmaMacro: result.SigmaMacro,
		Segmenter: segmenter.Version, MaxLength: maxLength, Base: baseName(base), Data: c.DataName,
	}
	for aggregate, t := range result.Thresholds {
		man.Thresholds[string(aggregate)] = t
	}
	if err := checkpoint.Write(c.Out, learner.Config(), man, tensors, files...); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}

// regressionFile has the labelled responses of the regression set. It is copied from a model to the models that are
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
