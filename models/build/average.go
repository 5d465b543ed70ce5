package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"assay/rewardmodel/checkpoint"
)

// average writes the mean of the weights of two models to out, with the given share of the second: two training runs from the
// same base, whose mean generalizes better than either ("model soups", Wortsman et al., 2022). The rest of the checkpoint is
// that of the first, also whether it reads prompts: it keeps the token type of a prompt if the second has none, and gets none
// from it.
func average(first, second, out string, share float32, log io.Writer) (err error) {
	var models [2]*checkpoint.Checkpoint
	for i, dir := range []string{first, second} {
		if models[i], err = checkpoint.Open(dir); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, models[i].Close()) }()
	}
	var tensors []checkpoint.Tensor
	for _, spec := range checkpoint.Specs(models[0].Config, true) {
		values, err := models[0].Float32(spec.Name)
		if err != nil {
			return err
		}
		other, ok := models[1].Info(storedName(models[1], spec.Name))
		if !ok || !slices.Equal(other.Shape, spec.Shape) && !sameTypes(spec, other.Shape) {
			return fmt.Errorf("%s has no %s of shape %v: models of different bases cannot be averaged", second, spec.Name, spec.Shape)
		}
		others, err := models[1].Float32(spec.Name)
		if err != nil {
			return err
		}
		for i := range min(len(values), len(others)) {
			values[i] = (1-share)*values[i] + share*others[i]
		}
		tensors = append(tensors, checkpoint.FromFloat32(spec.Name, checkpoint.F32, spec.Shape, values))
	}
	files, err := checkpoint.TokenizerFiles(first)
	if err != nil {
		return err
	}
	if err := checkpoint.Write(out, models[0].Config, *models[0].Manifest, tensors, files...); err != nil {
		return err
	}
	fmt.Fprintf(log, "averaged %s and %s into %s\n", models[0].Manifest.Version, models[1].Manifest.Version, out)
	return nil
}

// sameTypes reports whether a tensor of the given shape has token types of the same width as spec, which may be fewer or more.
func sameTypes(spec checkpoint.TensorSpec, shape []int) bool {
	return spec.Name == "embeddings.token_type_embeddings.weight" && len(shape) == 2 && shape[1] == spec.Shape[1]
}
