package rewardmodel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"assay/rewardmodel/batching"

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
	var distinct strings.Builder
	var short []string
	for i := range 4000 {
		fmt.Fprintf(&distinct, "This is number %d of many sentences. ", i)
		short = append(short, fmt.Sprintf("This is number %d. It is short.", i))
	}
	equal, different := strings.Repeat("X! ", 4096), distinct.String()
	for name, texts := range map[string][]string{
		"equal": {equal, equal + " ", equal + "  "}, "distinct": {different, different + " ", different + "  "}, "also as a whole": short,
	} {
		t.Run(name, func(t *testing.T) {
			s := newScorer(t, ScorerConfig{WholeCharacters: 40}, modelFunc(hashMargins))
			req := bounded(t, newTestMemory(t, DefaultMemory), texts...)
			type prepared struct {
				job  *job
				bags []bag
			}
			req.Options = req.Options.withDefaults()
			kept := allocated(func() prepared {
				j, bags, err := s.prepare(t.Context(), req, batching.Ticket{})
				require.NoError(t, err)
				for _, b := range bags {
					raise(b.utterances, b.wholes, j)
				}
				return prepared{j, bags}
			})
			require.LessOrEqual(t, kept, req.Memory.held)
			require.LessOrEqual(t, req.Memory.held, 6*kept, "otherwise too much is rejected")
		})
	}
}

// The results of aspects are charged, however many a model has.
func TestFootprintOfAspects(t *testing.T) {
	for _, n := range []int{1, 2, 8, 9, MaxAspects} {
		s := newScorer(t, ScorerConfig{Aspects: manyAspects(n)}, aspectModel(n))
		results := func(o Options) (kept, charged int64) {
			req := bounded(t, newTestMemory(t, DefaultMemory), slices.Repeat([]string{"X! Y!"}, 2000)...)
			req.Options = o
			kept = allocated(func() ScoreResponse {
				out, err := s.Score(t.Context(), req)
				require.NoError(t, err)
				return out
			})
			return kept, req.Memory.held
		}
		for _, instances := range []bool{false, true} {
			plain, plainCharge := results(Options{Instances: &instances})
			kept, charge := results(Options{Instances: &instances, Aspects: true})
			require.LessOrEqual(t, kept-plain, charge-plainCharge, "%d aspects", n)
			require.LessOrEqual(t, charge-plainCharge, 4*(kept-plain), "otherwise too much is rejected")
		}
	}
}

// tokenizerFunc is words, with its own ids.
type tokenizerFunc struct {
	words
	ids func(text string) []int32
}

func (f tokenizerFunc) IDsContext(_ context.Context, text string) ([]int32, error) {
	return f.ids(text), nil
}

// What is read of a prompt is charged while it is tokenized, and its tokens after it.
func TestPromptIsCharged(t *testing.T) {
	req := bounded(t, newTestMemory(t, DefaultMemory), "Yes.", "No.")
	req.Responses[0].Prompt = strings.Repeat("a", 1<<20)
	req.Responses[1].Prompt = strings.Repeat("b", 1<<20)
	var tokenizer tokenizerFunc
	var held []int64
	tokenizer.ids = func(text string) []int32 {
		held = append(held, req.Memory.held)
		return make([]int32, len(text))
	}
	s, err := NewScorer(ScorerConfig{Version: "v", ContextTokens: 500, MaxLength: 512}, modelFunc(hashMargins), tokenizer, nil)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	req.Options = req.Options.withDefaults()
	_, _, err = s.prepare(t.Context(), req, batching.Ticket{})
	require.NoError(t, err)
	require.GreaterOrEqual(t, held[0], int64((workBytes+wordBytes)*500*contextBytes))
	require.GreaterOrEqual(t, req.Memory.held, int64(2*500*tokenBytes))
	require.Less(t, req.Memory.held, int64(50_000), "released after it")
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
