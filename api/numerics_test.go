package api_test

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
)

// scorerWithNumerics scores with v7, whose arithmetic has a name.
func scorerWithNumerics(t *testing.T, numerics string) *rewardmodel.Scorer {
	t.Helper()
	scorer, err := rewardmodel.NewScorer(rewardmodel.ScorerConfig{Name: "default", Version: "v7", Numerics: numerics}, &model{}, runes{}, nil)
	require.NoError(t, err)
	t.Cleanup(scorer.Close)
	return scorer
}

// Every response with scores in a protocol of another project names the version and its arithmetic in headers, and one
// without scores does not.
func TestCompatNamesTheNumerics(t *testing.T) {
	s := start(t, scorerWithNumerics(t, "3/avx512/bf16/00000001"))
	scored := map[string]bool{}
	for _, file := range goldenRequests(t) {
		method, path, body, headers := readGolden(t, file)
		want, err := os.ReadFile(strings.TrimSuffix(file, ".request") + ".answer")
		require.NoError(t, err)
		var reader io.Reader
		if method == http.MethodPost {
			reader = strings.NewReader(body)
		}
		a := s.do(t, method, path, reader, headers...)
		scores := method == http.MethodPost && a.StatusCode == http.StatusOK && !strings.HasPrefix(path, "/v2/repository/models/assay/unload") &&
			!strings.HasPrefix(path, "/v2/repository/index") && !strings.HasSuffix(file, "nothing_for_this_server.request")
		if !scores {
			require.Empty(t, a.Header.Values("Assay-Numerics"), file)
			continue
		}
		scored[strings.Split(file, "/")[2]] = true
		require.Equal(t, "v7", a.Header.Get("Assay-Model-Version"), file)
		require.Equal(t, "3/avx512/bf16/00000001", a.Header.Get("Assay-Numerics"), file)
		if strings.HasSuffix(path, "/infer") {
			require.Contains(t, string(a.body), `"parameters":{"numerics":"3/avx512/bf16/00000001"}`, file)
			require.NotContains(t, string(want), "numerics", "a model whose arithmetic is unknown")
		}
	}
	require.Len(t, scored, 9, "protocols")
}

func TestGRPCInferNamesTheNumerics(t *testing.T) {
	for _, numerics := range []string{"3/avx512/bf16/00000001", ""} {
		a, err := infer(t, startRPC(t, scorerWithNumerics(t, numerics)), texts("Fine."))
		require.NoError(t, err)
		require.Equal(t, numerics, a.Parameters["numerics"].GetStringParam())
		require.Equal(t, numerics != "", a.Parameters != nil)
	}
}
