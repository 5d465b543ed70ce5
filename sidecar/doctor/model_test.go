package doctor

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
	"assay/rewardmodel/encoder"
	"assay/sidecar/localmodel"
	"assay/sidecar/processtest"
)

func TestModel(t *testing.T) {
	tiny := processtest.TinyModel(t, nil)
	damaged := filepath.Join(t.TempDir(), "damaged")
	require.NoError(t, os.CopyFS(damaged, os.DirFS(tiny)))
	require.NoError(t, os.Truncate(filepath.Join(damaged, "model.safetensors"), 100))
	look := func(dir string) model {
		return readModel(t.Context(), localmodel.Config{Model: dir, Compute: localmodel.Compute{Threads: 1, Precision: encoder.FP32}}, rewardmodel.ScorerConfig{MaxQueueTokens: localmodel.UnboundedQueue})
	}
	m := look(tiny)
	require.NoError(t, m.err)
	require.Positive(t, m.bytes)
	outcome{OK, []string{m.version, "fp32", "one sentence scored in"}}.of(t, m.findings(time.Now()))
	outcome{Error, []string{"damaged"}}.of(t, look(damaged).findings(time.Now()))
	outcome{Error, []string{"no such directory"}}.of(t, look("nowhere").findings(time.Now()))

	for name, tc := range map[string]struct {
		model
		outcome
	}{
		"checksums":       {model{version: "v1", checksums: 7}, outcome{OK, []string{"7 checksums match"}}},
		"no checksums":    {model{version: "v1"}, outcome{OK, []string{"no checksums"}}},
		"untrained":       {model{version: localmodel.Untrained}, outcome{Warning, []string{"meaningless"}}},
		"from the future": {model{version: "v1", created: time.Unix(2e9, 0)}, outcome{Warning, []string{"2033", "future"}}},
	} {
		t.Run(name, func(t *testing.T) { tc.of(t, tc.findings(time.Unix(1.9e9, 0))) })
	}
}
