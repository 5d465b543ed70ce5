package processtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/checkpoint"
)

// BagFile writes bags of two sentences; every other one holds an insult.
func BagFile(t *testing.T, bags int) string {
	t.Helper()
	var b strings.Builder
	for i := range bags {
		label, second := "compliant", "Have a good trip."
		if i%2 == 1 {
			label, second = "violation", "You fool."
		}
		fmt.Fprintf(&b, `{"id":"b%d","label":"%s","response":"Train %d leaves at noon. %s"}`+"\n", i, label, i, second)
	}
	path := filepath.Join(t.TempDir(), "bags.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
	return path
}

// TrainArgs train the model on the bags for some epochs.
func TrainArgs(model, bags, out string, epochs int) []string {
	return []string{"train", "--init", model, "--bags", bags, "--out", out, "--epochs", fmt.Sprint(epochs),
		"--lr", "1e-3", "--precision", "fp32", "--threads", "1"}
}

// PathExists reports whether there is such a file or directory.
func PathExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Manifest reads assay.json in a checkpoint directory.
func Manifest(t *testing.T, dir string) *checkpoint.Manifest {
	t.Helper()
	c, err := checkpoint.Open(dir)
	require.NoError(t, err)
	defer c.Close()
	return c.Manifest
}

// Weights are the bytes of a model's only weights file.
func Weights(t *testing.T, dir string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
	require.NoError(t, err)
	return data
}

// LoadBags reads a bag file.
func LoadBags(t *testing.T, name string) []bag.Bag {
	t.Helper()
	file, err := os.Open(name)
	require.NoError(t, err)
	defer file.Close()
	var bags []bag.Bag
	for b, err := range bag.Read(file) {
		require.NoError(t, err)
		bags = append(bags, b)
	}
	return bags
}
