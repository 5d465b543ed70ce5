package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/rewardmodel/checkpoint"
)

func TestAverage(t *testing.T) {
	const dense = "classifier.dense.weight"
	dir := t.TempDir()
	first, second, out := filepath.Join(dir, "first"), filepath.Join(dir, "second"), filepath.Join(dir, "out")
	for _, dir := range []string{first, second} {
		if err := os.CopyFS(dir, os.DirFS("../../rewardmodel/checkpoint/testdata/roberta-two")); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "assay.json"), `{"version":"`+filepath.Base(dir)+`","threshold":0.4}`)
	}
	before := scaleWeights(t, second, 3)
	if err := average(first, second, out, io.Discard); err != nil {
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
		if got[i] != 2*value {
			t.Fatalf("element %d: %g, want the mean of %g and of three times that", i, got[i], value)
		}
	}
}

func TestAverageOfDifferentModels(t *testing.T) {
	err := average("../default", "../../rewardmodel/checkpoint/testdata/roberta-two", t.TempDir(), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "different bases") {
		t.Fatal(err)
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
