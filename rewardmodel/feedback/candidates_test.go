package feedback

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/logistic"
)

func scored(id, response string, violation float64) Scored {
	return Scored{Bag: bag.Bag{ID: id, Response: response}, Score: Score{Model: "v2", Violation: violation, Threshold: 0.3}}
}

func ids(candidates []Candidate) (out []string) {
	for _, c := range candidates {
		out = append(out, c.ID)
	}
	return out
}

func ranked(t testing.TB, pool []Scored, n int, opts RankOptions) []Candidate {
	t.Helper()
	candidates, err := Rank(t.Context(), pool, n, opts)
	require.NoError(t, err)
	return candidates
}

func TestRankPrefersUncertainResponses(t *testing.T) {
	pool := []Scored{
		scored("sure violation", "one two", 0.99), scored("at T", "three four", 0.3), scored("half", "five six", 0.5),
		scored("certain", "seven eight", 1), scored("sure compliance", "nine ten", 0.001), scored("impossible", "eleven", 0),
	}
	got := ranked(t, pool, 3, RankOptions{})
	assert.Equal(t, []string{"at T", "half", "sure violation"}, ids(got))
	assert.Equal(t, 1.0, got[0].Uncertainty)
	assert.Equal(t, "three four", got[0].Response)
	assert.Equal(t, "v2", got[0].Model)
	assert.Nil(t, got[0].Disagreement)
	for i, c := range ranked(t, pool, 100, RankOptions{}) {
		assert.True(t, c.Uncertainty > 0 && c.Uncertainty <= 1, "%+v", c)
		assert.True(t, i == 0 || c.Score <= got[0].Score)
	}
	assert.Len(t, ranked(t, pool, 100, RankOptions{}), len(pool))
	assert.Empty(t, ranked(t, pool, 0, RankOptions{}))
	assert.Empty(t, ranked(t, nil, 10, RankOptions{}))
}

func TestRankDoesNotDependOnTheScaleOfScores(t *testing.T) {
	quiet, loud := []Scored{}, []Scored{}
	for i := range 20 {
		odds := float64(i) - 7.3
		text := fmt.Sprint("word", i)
		quiet = append(quiet, scored(text, text, logistic.Sigmoid(logistic.Logit(0.3)+odds/100)))
		loud = append(loud, scored(text, text, logistic.Sigmoid(logistic.Logit(0.3)+odds)))
	}
	assert.Equal(t, ids(ranked(t, quiet, 20, RankOptions{})), ids(ranked(t, loud, 20, RankOptions{})))
}

func TestRankPrefersDisagreement(t *testing.T) {
	var pool []Scored
	for i, other := range []float64{0.9, 0.01, 0.9} {
		s := scored(fmt.Sprint(i), fmt.Sprint("word", i), 0.9)
		s.Other = &Score{Model: "v1", Violation: other, Threshold: 0.4}
		pool = append(pool, s)
	}
	got := ranked(t, pool, 1, RankOptions{})
	require.Equal(t, []string{"1"}, ids(got))
	assert.Equal(t, ReasonDisagree, got[0].Reason)
	assert.Greater(t, *got[0].Disagreement, 0.4)
}

func TestRankPrefersDiverseResponses(t *testing.T) {
	pool := []Scored{
		scored("a", "You are a complete fool and nobody wants you here", 0.30),
		scored("b", "You are a complete fool and nobody needs you here", 0.31),
		scored("c", "Press the red button to open the valve", 0.32),
		scored("d", "Sunny weather is expected on the coast tomorrow", 0.99),
		scored("e", "Our shop opens at nine in the morning", 0.01),
	}
	got := ranked(t, pool, 3, RankOptions{})
	assert.Equal(t, []string{"a", "c"}, ids(got[:2]))
	all := ranked(t, pool, 5, RankOptions{Explore: 0.01})
	for _, c := range all {
		if c.ID == "b" {
			assert.Greater(t, c.Similarity, 0.4)
		} else {
			assert.Less(t, c.Similarity, 0.3, c.ID)
		}
	}
}

func TestRankSamplesSomeAtRandom(t *testing.T) {
	pool := madeUp(400)
	random := map[string]bool{}
	for i, c := range ranked(t, pool, 40, RankOptions{}) {
		assert.Equal(t, i%4 == 3, c.Reason == ReasonRandom, i)
		if c.Reason == ReasonRandom {
			random[c.ID] = true
		}
	}
	assert.Len(t, random, 10)
	for i := range pool {
		pool[i].Model = "v3"
	}
	same := 0
	for _, c := range ranked(t, pool, 40, RankOptions{}) {
		if c.Reason == ReasonRandom && random[c.ID] {
			same++
		}
	}
	assert.Less(t, same, 5, "each model draws its own")
	for _, c := range ranked(t, pool, 40, RankOptions{Explore: 1}) {
		assert.Equal(t, ReasonRandom, c.Reason)
	}
}

func TestRankOmitsKnownAndEqualResponses(t *testing.T) {
	pool := []Scored{
		scored("b", "the same", 0.3), scored("a", "the same", 0.3), scored("known", "labeled", 0.3),
		{Bag: bag.Bag{ID: "m", Messages: []bag.Message{{Role: "user", Content: "hi"}, {Role: "assistant", Content: "the same"}}}, Score: Score{Violation: 0.3, Threshold: 0.3}},
		{Bag: bag.Bag{ID: "i", Instances: []string{"the", "same"}}, Score: Score{Violation: 0.3, Threshold: 0.3}},
		{Bag: bag.Bag{ID: "p", Prompt: "another", Response: "the same"}, Score: Score{Violation: 0.3, Threshold: 0.3}},
		{Bag: bag.Bag{ID: "q", Prompt: "hi", Response: "the same"}, Score: Score{Violation: 0.3, Threshold: 0.3}},
	}
	got := ranked(t, pool, 10, RankOptions{Known: func(s Scored) bool { return s.Bag.ID == "known" }})
	assert.ElementsMatch(t, []string{"a", "i", "m", "p"}, ids(got))
}

func TestRankIsFiniteAndRepeatable(t *testing.T) {
	pool := madeUp(300)
	for i := range pool {
		switch i % 5 {
		case 0:
			pool[i].Violation, pool[i].Threshold = 1, 1
		case 1:
			pool[i].Violation, pool[i].Threshold = 0, 1
		case 2:
			pool[i].Bag.Response = ""
		}
	}
	first := ranked(t, pool, 50, RankOptions{})
	for _, c := range first {
		assert.False(t, math.IsNaN(c.Score+c.Uncertainty+c.Similarity), "%+v", c)
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(pool), func(i, j int) { pool[i], pool[j] = pool[j], pool[i] })
	assert.Equal(t, len(first), len(ranked(t, pool, 50, RankOptions{})))
	distinct := madeUp(300)
	again := madeUp(300)
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })
	assert.Equal(t, ranked(t, distinct, 50, RankOptions{}), ranked(t, again, 50, RankOptions{}))
}

// madeUp returns n random responses of 60 words.
func madeUp(n int) []Scored {
	rng := rand.New(rand.NewPCG(3, 4))
	pool := make([]Scored, n)
	for i := range pool {
		var text strings.Builder
		for range 60 {
			fmt.Fprintf(&text, "w%d ", int(rng.ExpFloat64()*200))
		}
		pool[i] = scored(fmt.Sprint("r", i), text.String(), rng.Float64())
	}
	return pool
}

func BenchmarkRank(b *testing.B) {
	pool := madeUp(5000)
	for _, n := range []int{20, 200} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				ranked(b, pool, n, RankOptions{})
			}
		})
	}
}

// Of a model with several aspects, the most uncertain aspect counts, and is named.
func TestRankNamesTheAspect(t *testing.T) {
	of := func(id, text string, toxicity, refusal float64) Scored {
		s := scored(id, text, max(toxicity, refusal))
		s.Aspects = map[string]AspectScore{"toxicity": {toxicity, 0.5}, "refusal": {refusal, 0.2}}
		return s
	}
	pool := []Scored{
		of("a", "one text", 0.01, 0.2), of("b", "another altogether", 0.5, 0.001), of("c", "something else again", 0.02, 0.002),
		of("d", "nothing in common here", 0.99, 0.9), of("e", "many more words", 0.01, 0.001),
	}
	other := of("e", "", 0.9, 0.001).Score
	pool[4].Other = &other
	got := map[string]Candidate{}
	for _, c := range ranked(t, pool, 5, RankOptions{Explore: 1e-9}) {
		got[c.ID] = c
	}
	if c := got["a"]; c.Aspect != "refusal" || c.Violation != 0.2 || c.Threshold != 0.2 || c.Uncertainty != 1 {
		t.Errorf("got %+v", c)
	}
	if c := got["b"]; c.Aspect != "toxicity" || c.Violation != 0.5 || c.Uncertainty != 1 {
		t.Errorf("got %+v", c)
	}
	if c := got["e"]; c.Aspect != "toxicity" || c.Reason != ReasonDisagree || c.Disagreement == nil {
		t.Errorf("got %+v", c)
	}
	if c := got["c"]; c.Uncertainty >= 0.9 || c.Reason != ReasonUncertain {
		t.Errorf("got %+v", c)
	}
}

// An aspect is named also where all are certain, compared with a pool that is mostly at
// the thresholds, as after an untrained model.
func TestRankNamesTheAspectOfCertainResponses(t *testing.T) {
	var pool []Scored
	for i := range 6 {
		near := scored(fmt.Sprint("n", i), fmt.Sprint("text ", i), 0.501)
		near.Aspects = map[string]AspectScore{"toxicity": {0.501, 0.5}, "refusal": {0.501, 0.5}}
		pool = append(pool, near)
	}
	far := scored("far", "something else", 0.99)
	far.Aspects = map[string]AspectScore{"toxicity": {0.999, 0.5}, "refusal": {0.99, 0.5}}
	for _, c := range ranked(t, append(pool, far), 7, RankOptions{}) {
		if c.ID == "far" && (c.Aspect != "refusal" || c.Violation != 0.99 || c.Threshold != 0.5) {
			t.Errorf("got %+v", c)
		}
	}
}

// Ranking ends with the request that asked for it.
func TestRankIsCanceled(t *testing.T) {
	left := errors.New("the client left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(left)
	_, err := Rank(ctx, []Scored{scored("a", "a text", 0.5)}, 10, RankOptions{})
	require.ErrorIs(t, err, left)
}
