package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/rewardmodel/checkpoint"
)

func TestAverage(t *testing.T) {
	const dense = "classifier.dense.weight"
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	for _, dir := range []string{first, second} {
		if err := os.CopyFS(dir, os.DirFS("../../rewardmodel/checkpoint/testdata/roberta-two")); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "assay.json"), `{"version":"`+filepath.Base(dir)+`","threshold":0.4}`)
	}
	before := scaleWeights(t, second, 3)
	for share, factor := range map[float32]float32{0.5: 2, 0.25: 1.5, 0: 1} {
		out := t.TempDir()
		if err := average(first, second, out, share, io.Discard); err != nil {
			t.Fatal(err)
		}
		averaged, err := checkpoint.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		defer averaged.Close()
		if averaged.Manifest.Version != "first" {
			t.Errorf("version %s", averaged.Manifest.Version)
		}
		got, err := averaged.Float32(dense)
		if err != nil {
			t.Fatal(err)
		}
		for i, value := range before[dense] {
			if got[i] != factor*value {
				t.Fatalf("share %g, element %d: %g, want %g times %g", share, i, got[i], factor, value)
			}
		}
	}
}

func TestAverageOfDifferentModels(t *testing.T) {
	err := average("../default", "../../rewardmodel/checkpoint/testdata/roberta-two", t.TempDir(), 0.5, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "different bases") {
		t.Fatal(err)
	}
}

// A model without context has no token type of a prompt: the mean has it only if the first model has.
func TestAverageOfTokenTypes(t *testing.T) {
	const types = "embeddings.token_type_embeddings.weight"
	dir := t.TempDir()
	without, with := filepath.Join(dir, "without"), filepath.Join(dir, "with")
	if err := os.CopyFS(without, os.DirFS("../../rewardmodel/checkpoint/testdata/roberta-two")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(without, "assay.json"), `{"version":"without","threshold":0.4}`)
	c, err := checkpoint.Open(without)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cfg := c.Config
	cfg.TypeVocab = 2
	var tensors []checkpoint.Tensor
	var own []float32
	for _, spec := range checkpoint.Specs(cfg, true) {
		values, err := c.Float32(spec.Name)
		if err != nil {
			t.Fatal(err)
		}
		if spec.Name == types {
			own = values
			values = slices.Concat(values, slices.Repeat([]float32{7}, len(values)))
		}
		tensors = append(tensors, checkpoint.FromFloat32(spec.Name, checkpoint.F32, spec.Shape, values))
	}
	files, err := checkpoint.TokenizerFiles(without)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Write(with, cfg, checkpoint.Manifest{Version: "with"}, tensors, files...); err != nil {
		t.Fatal(err)
	}
	for _, order := range [][2]string{{without, with}, {with, without}} {
		out := t.TempDir()
		if err := average(order[0], order[1], out, 0.5, io.Discard); err != nil {
			t.Fatal(err)
		}
		averaged, err := checkpoint.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		defer averaged.Close()
		got, err := averaged.Float32(types)
		if err != nil {
			t.Fatal(err)
		}
		want := own
		if order[0] == with {
			want = slices.Concat(own, slices.Repeat([]float32{7}, len(own)))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s first: %v, want %v", order[0], got, want)
		}
	}
}

// scaleWeights multiplies all weights of the checkpoint in dir, and returns them as they were.
func scaleWeights(t *testing.T, dir string, factor float32) map[string][]float32 {
	t.Helper()
	c, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	weights := map[string][]float32{}
	var tensors []checkpoint.Tensor
	for _, spec := range checkpoint.Specs(c.Config, true) {
		if weights[spec.Name], err = c.Float32(spec.Name); err != nil {
			t.Fatal(err)
		}
		scaled := make([]float32, len(weights[spec.Name]))
		for i, value := range weights[spec.Name] {
			scaled[i] = factor * value
		}
		tensors = append(tensors, checkpoint.FromFloat32(spec.Name, checkpoint.F32, spec.Shape, scaled))
	}
	files, err := checkpoint.TokenizerFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Write(dir, c.Config, *c.Manifest, tensors, files...); err != nil {
		t.Fatal(err)
	}
	return weights
}
