package main

import (
	"cmp"
	"errors"
	"path/filepath"

	"assay/rewardmodel/checkpoint"
)

// floatModel returns a checkpoint directory with the weights of dir as floats, which other programs read: dir itself, or if
// its weights are quantized, a copy in the directory copies.
func floatModel(dir, copies string) (out string, err error) {
	ckpt, err := checkpoint.Open(dir)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, ckpt.Close()) }()
	if !ckpt.Quantized() {
		return dir, nil
	}
	var tensors []checkpoint.Tensor
	for _, spec := range checkpoint.Specs(ckpt.Config, ckpt.HasClassifier()) {
		values, err := ckpt.Float32(spec.Name)
		if err != nil {
			return "", err
		}
		tensors = append(tensors, checkpoint.FromFloat32(spec.Name, checkpoint.F32, spec.Shape, values))
	}
	files, err := checkpoint.TokenizerFiles(dir)
	if err != nil {
		return "", err
	}
	out = filepath.Join(copies, filepath.Base(dir)+"-floats")
	man := *ckpt.Manifest
	man.Version = cmp.Or(man.Version, filepath.Base(dir)) // a checkpoint of others has none
	return out, checkpoint.Write(out, ckpt.Config, man, tensors, files...)
}
