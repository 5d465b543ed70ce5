package localmodel_test

import (
	"os"
	"path/filepath"
	"slices"
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

// A model that describes emoji reads their names, and normalizes the spelling of the result if it does that too.
func TestDescribeEmoji(t *testing.T) {
	for _, normalize := range []bool{false, true} {
		m, err := localmodel.Config{Model: processtest.TinyModel(t, func(_ *checkpoint.Config, man *checkpoint.Manifest) {
			man.DescribeEmoji, man.NormalizeSpelling = true, normalize
		})}.Open()
		require.NoError(t, err)
		defer m.Close()
		require.Equal(t, m.Tokenizer.IDs("a kitchen knife for you"), m.Tokenizer.IDs("a 🔪for you"))
		require.Equal(t, normalize, slices.Equal(m.Tokenizer.IDs("kitchen knife idiot"), m.Tokenizer.IDs("🔪 i d i o t")))
	}
}

// A model that normalizes the spelling reads an obfuscated text as the plain one; another does not, and neither do offsets.
func TestNormalizeSpelling(t *testing.T) {
	for _, normalize := range []bool{false, true} {
		m, err := localmodel.Config{Model: processtest.TinyModel(t, func(_ *checkpoint.Config, man *checkpoint.Manifest) { man.NormalizeSpelling = normalize })}.Open()
		require.NoError(t, err)
		defer m.Close()
		const obfuscated, plain = "You i d i о t", "You idiot" // Cyrillic о
		require.Equal(t, normalize, slices.Equal(m.Tokenizer.IDs(obfuscated), m.Tokenizer.IDs(plain)))
		offsets := m.Tokenizer.Encode(obfuscated).Offsets
		require.Equal(t, len(obfuscated), offsets[len(offsets)-1].End)
	}
}
