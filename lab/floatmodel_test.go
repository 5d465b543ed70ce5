package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/checkpoint"
)

func TestFloatModel(t *testing.T) {
	const floats, quantized = "../rewardmodel/checkpoint/testdata/roberta-bf16", "../rewardmodel/checkpoint/testdata/roberta-int8"
	same, err := floatModel(floats, t.TempDir())
	require.NoError(t, err)
	require.Equal(t, floats, same)

	was, err := checkpoint.Open(quantized)
	require.NoError(t, err)
	defer was.Close()
	dir, err := floatModel(quantized, t.TempDir())
	require.NoError(t, err)
	is, err := checkpoint.Open(dir)
	require.NoError(t, err)
	defer is.Close()
	require.False(t, slices.ContainsFunc(is.Tensors(), func(t checkpoint.TensorInfo) bool { return t.DType != checkpoint.F32 }))
	for _, spec := range checkpoint.Specs(was.Config, true) {
		want, err := was.Float32(spec.Name)
		require.NoError(t, err)
		got, err := is.Float32(spec.Name)
		require.NoError(t, err)
		require.Equal(t, want, got, spec.Name)
	}
}
