package rewardmodel

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// bounded is a request whose memory is charged.
func bounded(t *testing.T, m *Memory, responses ...string) Request {
	t.Helper()
	req := Request{Memory: m.Open()}
	t.Cleanup(req.Memory.Close)
	for _, text := range responses {
		req.Responses = append(req.Responses, Item{Response: new(text)})
	}
	return req
}

// What a request is charged covers what it keeps until its results are sent.
func TestFootprint(t *testing.T) {
	s := newScorer(t, ScorerConfig{}, modelFunc(hashMargins))
	var distinct strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&distinct, "This is number %d of many sentences. ", i)
	}
	for name, text := range map[string]string{"equal": strings.Repeat("X! ", 4096), "distinct": distinct.String()} {
		t.Run(name, func(t *testing.T) {
			req := bounded(t, newTestMemory(t, DefaultMemory), text, text+" ", text+"  ")
			type prepared struct {
				job  *job
				bags []bag
			}
			req.Options = req.Options.withDefaults()
			kept := allocated(func() prepared {
				j, bags, err := s.prepare(t.Context(), req)
				require.NoError(t, err)
				return prepared{j, bags}
			})
			require.LessOrEqual(t, kept, req.Memory.held)
			require.LessOrEqual(t, req.Memory.held, 6*kept, "or too much is refused")
		})
	}
}

func TestScoreLimitsInstances(t *testing.T) {
	s := newScorer(t, ScorerConfig{MaxRequestInstances: 5}, modelFunc(hashMargins))
	_, err := s.Score(t.Context(), bounded(t, nil, "One. Two.", "Three. Four. Five."))
	require.NoError(t, err)
	_, err = s.Score(t.Context(), bounded(t, nil, "One. Two.", "Three. Four. Five. Six."))
	var input *InputError
	require.ErrorAs(t, err, &input)
	require.Equal(t, KindTooLarge, input.Kind)
	require.Equal(t, "responses[1]", input.Field)
	require.Contains(t, input.Message, "more than 5; split the request")
}

// The largest request of a trainer that is expected fits the default memory:
// 8,192 responses of 40 utterances, 327,680 instances.
func TestLargeRequestFits(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	s := newScorer(t, ScorerConfig{}, modelFunc(hashMargins))
	responses := make([]string, DefaultMaxResponses)
	for i := range responses {
		responses[i] = strings.Repeat(fmt.Sprintf("Utterance of response %d, which is as long as many are. ", i), 40)
	}
	req := bounded(t, newTestMemory(t, DefaultMemory), responses...)
	body, err := req.AppendJSON(nil)
	require.NoError(t, err)
	require.NoError(t, req.Memory.Grow(int64(len(body))+DecodeBytes(body)))
	answer, err := s.Score(t.Context(), req)
	require.NoError(t, err)
	require.Len(t, answer.Results[0].Instances, 40)
	t.Logf("a body of %d bytes holds %d", len(body), req.Memory.held)
}

// A response is refused before it is segmented when there is no memory for it.
func TestScoreIsCharged(t *testing.T) {
	m := newTestMemory(t, 64<<20)
	s := newScorer(t, ScorerConfig{}, modelFunc(hashMargins))
	other := m.Open()
	require.NoError(t, other.Grow(40<<20))
	text := strings.Repeat("a b. ", 100_000)
	_, err := s.Score(t.Context(), bounded(t, m, text))
	var overloaded *OverloadedError
	require.ErrorAs(t, err, &overloaded)
	require.Positive(t, overloaded.RetryAfter)
	other.Close()
	_, err = s.Score(t.Context(), bounded(t, m, text))
	require.NoError(t, err)

	_, err = s.Score(t.Context(), bounded(t, m, strings.Repeat("a", 4<<20)))
	var input *InputError
	require.True(t, errors.As(err, &input) && input.Kind == KindTooLarge, "%v", err)
}
