package localmodel_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
	"assay/sidecar/processtest"
)

func TestInvalidModels(t *testing.T) {
	damaged := processtest.TinyModel(t, nil)
	file, err := os.OpenFile(filepath.Join(damaged, "vocab.json"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteString("\n")
	require.NoError(t, err)
	require.NoError(t, file.Close())
	for name, c := range map[string]struct {
		dir  string
		says []string
	}{
		"vocabulary": {processtest.TinyModel(t, func(c *checkpoint.Config, _ *checkpoint.Manifest) { c.Vocab = 100 }), []string{"8300 tokens", "100 rows"}},
		"checksum":   {damaged, []string{"vocab.json", "sha-256"}},
		"base":       {"../../rewardmodel/checkpoint/testdata/roberta-model", []string{"--allow-untrained"}},
		"tokenizer":  {"../../rewardmodel/checkpoint/testdata/roberta-two", []string{"tokenizer.json"}},
		"nothing":    {"nowhere", []string{"--model nowhere", filepath.Join("models", "nowhere")}},
		"no model":   {t.TempDir(), []string{"config.json"}},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := assay(t, "", "score", "--model", c.dir, "--threads", "1")
			require.Equal(t, cli.ExitUsage, code, stderr)
			require.Empty(t, stdout)
			for _, part := range c.says {
				require.Contains(t, strings.ToLower(strings.ReplaceAll(stderr, `\"`, `"`)), strings.ToLower(part))
			}
		})
	}
}

func TestVersionOfAModel(t *testing.T) {
	// Without assay.json, the weights name themselves.
	plain := processtest.TinyModel(t, nil)
	require.NoError(t, os.Remove(filepath.Join(plain, "assay.json")))
	m, err := localmodel.Config{Model: plain}.Open()
	require.NoError(t, err)
	defer m.Close()
	version, err := m.Version(t.Context())
	require.NoError(t, err)
	require.Regexp(t, `^tiny-[0-9a-f]{8}$`, version)
	require.Equal(t, map[rewardmodel.Aggregate]float64{rewardmodel.AggregateMax: 0.5}, m.Aspects()[0].Thresholds)
}
