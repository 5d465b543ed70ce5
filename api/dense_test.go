package api_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
)

// Golden requests and answers of dense rewards, without what differs from call
// to call. UPDATE_GOLDEN=1 rewrites them.
func TestDenseGolden(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	files, err := filepath.Glob("testdata/dense/*.request.json")
	require.NoError(t, err)
	require.Len(t, files, 5)
	for _, file := range files {
		request, err := os.ReadFile(file)
		require.NoError(t, err)
		got := s.score(t, string(request))
		require.Equal(t, 200, got.StatusCode, string(got.body))
		var answer rewardmodel.ScoreResponse
		require.NoError(t, json.Unmarshal(got.body, &answer))
		for i := range answer.Results {
			round(&answer.Results[i])
		}
		body, err := json.MarshalIndent(answer.Results, "", "  ")
		require.NoError(t, err)

		golden := strings.TrimSuffix(file, ".request.json") + ".answer.json"
		if os.Getenv("UPDATE_GOLDEN") != "" {
			require.NoError(t, os.WriteFile(golden, append(body, '\n'), 0o644)) //nolint:gosec // a file of the repository
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		require.Equal(t, strings.TrimSpace(string(want)), string(body), file)
	}
}

// round drops the digits that differ from processor to processor.
func round(r *rewardmodel.Result) {
	numbers := []*float64{&r.Reward, &r.Violation}
	if r.Witness != nil {
		numbers = append(numbers, &r.Witness.Violation)
	}
	for i := range r.TokenRewards {
		numbers = append(numbers, &r.TokenRewards[i])
	}
	for _, x := range numbers {
		*x = math.Round(*x*1e9) / 1e9
	}
}

func TestDenseRejects(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	for body, want := range map[string][2]string{
		`{"responses":[{"response":"a"},{"response":"aé","token_offsets":[[0,1],[1,3]]}],"options":{"dense":"last","tokenizer":"default"}}`: {
			"options.tokenizer", "unknown tokenizer"},
		`{"responses":[{"response":"a","token_offsets":[]},{"response":"aé","token_offsets":[[0,1],[1,3]]}],"options":{"dense":"last"}}`: {
			"responses[1].token_offsets[1]", "[1,3]: 3 is outside the response, which has 2 codepoint units"},
		`{"responses":[{"response":"aé","token_offsets":[[0,1],[1,2]]}],"options":{"dense":"last","offset_unit":"utf8"}}`: {
			"responses[0].token_offsets[1]", "2 is in the middle of a character"},
		`{"responses":[{"response":"a","token_offsets":[[0,1]]}]}`: {
			"responses[0].token_offsets", "without options.dense"},
		`{"responses":[{"response":"a"}],"options":{"dense":"shaped"}}`: {
			"responses[0]", "token_offsets, or options.tokenizer"},
	} {
		got := s.score(t, body)
		require.Equal(t, 400, got.StatusCode, body)
		_, field, message := got.failure(t)
		require.Equal(t, want[0], field)
		require.Contains(t, message, want[1])
	}
}
