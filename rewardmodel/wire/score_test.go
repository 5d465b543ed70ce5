package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"assay/rewardmodel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// words is a tokenizer that makes one token of each word: its length.
type words struct{}

func (words) IDsContext(ctx context.Context, text string) ([]int32, error) {
	var ids []int32
	for word := range strings.FieldsSeq(text) {
		ids = append(ids, int32(len(word)))
	}
	return ids, ctx.Err()
}

func (words) Frame(ids []int32) []int32 { return ids }
func (words) Special() int              { return 0 }

// brevity is a model that finds short instances anomalous.
type brevity struct{}

func (brevity) Margins(batch []rewardmodel.Sequence) ([]float32, error) {
	margins := make([]float32, len(batch))
	for i, ids := range batch {
		margins[i] = 3 - float32(len(ids.IDs))
	}
	return margins, nil
}

func newScorer(t *testing.T) *rewardmodel.Scorer {
	t.Helper()
	s, err := rewardmodel.NewScorer(rewardmodel.ScorerConfig{Version: "v1"}, brevity{}, words{}, nil)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// responses is a request of one item for each text.
func responses(texts ...string) rewardmodel.Request {
	var req rewardmodel.Request
	for _, text := range texts {
		req.Responses = append(req.Responses, rewardmodel.Item{Response: &text})
	}
	return req
}

// Text from a file may be anything; each result is still a line of JSON.
func TestOddTextIsStillJSON(t *testing.T) {
	s := newScorer(t)
	for _, unit := range []rewardmodel.OffsetUnit{rewardmodel.OffsetCodepoint, rewardmodel.OffsetUTF8, rewardmodel.OffsetUTF16} {
		req := responses("caf\xe9 \x00 \u2028 <b>&\U000e0001", "\xff\xfe", "a\xed\xa0\x80b")
		req.Responses[0].ID = "id\xff"
		req.Options.OffsetUnit = unit
		response, err := s.Score(t.Context(), req)
		require.NoError(t, err)
		for i, r := range response.Results {
			line, err := AppendResult(nil, r)
			if err != nil || !json.Valid(line) || strings.ContainsRune(string(line), '\n') {
				t.Errorf("result %d: %q, %v", i, line, err)
			}
			if text := []rune(r.Witness.Text); unit == rewardmodel.OffsetCodepoint && len(text) != r.Witness.End-r.Witness.Start {
				t.Errorf("result %d: %d code points of text for [%d,%d)", i, len(text), r.Witness.Start, r.Witness.End)
			}
		}
	}
}

// The largest request of a trainer that is expected fits the default memory:
// 8,192 responses of 40 utterances, 327,680 instances.
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
	body, err := AppendRequest(nil, req)
	require.NoError(t, err)
	require.NoError(t, req.Memory.Grow(int64(len(body))+DecodeBytes(body)))
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
	require.NoError(t, WriteScoreResponse(&out, response))
	require.NotContains(t, out.String(), `"instances"`)
	require.Contains(t, out.String(), `"witness":{"index"`)
}
