package rewardmodel_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
	"assay/rewardmodel/wire"
)

func newScorer(t *testing.T) *rewardmodel.Scorer {
	t.Helper()
	s, err := rewardmodel.NewScorer(rewardmodel.ScorerConfig{Version: "v1"}, brevity{}, spaces{}, nil)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// responses returns a request with one item per text.
func responses(texts ...string) rewardmodel.Request {
	var req rewardmodel.Request
	for _, text := range texts {
		req.Responses = append(req.Responses, rewardmodel.Item{Response: &text})
	}
	return req
}

// Text can be arbitrary bytes, for example of a file; each result is still one line of JSON.
func TestResultsOfAnyTextAreJSON(t *testing.T) {
	s := newScorer(t)
	for _, unit := range []rewardmodel.OffsetUnit{rewardmodel.OffsetCodepoint, rewardmodel.OffsetUTF8, rewardmodel.OffsetUTF16} {
		req := responses("caf\xe9 \x00 \u2028 <b>&\U000e0001", "\xff\xfe", "a\xed\xa0\x80b")
		req.Responses[0].ID = "id\xff"
		req.Options.OffsetUnit = unit
		response, err := s.Score(t.Context(), req)
		require.NoError(t, err)
		for i, r := range response.Results {
			line, err := wire.AppendResult(nil, r)
			if err != nil || !json.Valid(line) || strings.ContainsRune(string(line), '\n') {
				t.Errorf("result %d: %q, %v", i, line, err)
			}
			if text := []rune(r.Witness.Text); unit == rewardmodel.OffsetCodepoint && len(text) != r.Witness.End-r.Witness.Start {
				t.Errorf("result %d: %d code points of text for [%d,%d)", i, len(text), r.Witness.Start, r.Witness.End)
			}
		}
	}
}

// The default memory is sufficient for a large request of a trainer: 8,192 responses of
// 40 utterances, 327,680 instances.
func TestLargeRequestFits(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	s := newScorer(t)
	texts := make([]string, rewardmodel.DefaultMaxResponses)
	for i := range texts {
		texts[i] = strings.Repeat(fmt.Sprintf("Utterance of response %d, which is as long as many are. ", i), 40)
	}
	memory, err := rewardmodel.NewMemory(rewardmodel.DefaultMemory, nil)
	require.NoError(t, err)
	req := responses(texts...)
	req.Memory = memory.Open()
	defer req.Memory.Close()
	body, err := wire.AppendRequest(nil, req)
	require.NoError(t, err)
	require.NoError(t, req.Memory.Grow(int64(len(body))+wire.DecodeBytes(body)))
	response, err := s.Score(t.Context(), req)
	require.NoError(t, err)
	require.Len(t, response.Results[0].Instances, 40)
	t.Logf("the body has %d bytes", len(body))
}

func TestResultWithoutInstances(t *testing.T) {
	req := responses("One. Two.")
	req.Options.Instances = new(false)
	response, err := newScorer(t).Score(t.Context(), req)
	require.NoError(t, err)
	var out strings.Builder
	require.NoError(t, wire.WriteScoreResponse(&out, response))
	require.NotContains(t, out.String(), `"instances"`)
	require.Contains(t, out.String(), `"witness":{"index"`)
}
