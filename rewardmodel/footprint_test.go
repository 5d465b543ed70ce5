package rewardmodel

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// bounded returns a request whose memory is charged.
func bounded(t *testing.T, m *Memory, responses ...string) Request {
	t.Helper()
	req := Request{Memory: m.Open()}
	t.Cleanup(req.Memory.Close)
	for _, text := range responses {
		req.Responses = append(req.Responses, Item{Response: new(text)})
	}
	return req
}

// The charge of a request covers the memory that it keeps until its results are sent.
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
			require.LessOrEqual(t, req.Memory.held, 6*kept, "otherwise too much is rejected")
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

// A response is rejected before segmentation when there is no memory for it.
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
