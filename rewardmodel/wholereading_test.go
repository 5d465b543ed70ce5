package rewardmodel

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// denial has a margin of 3 for a text that contains all of the words, and of -3 for others.
func denial(all ...string) Model {
	return modelFunc(func(batch []Sequence) (out []float32, err error) {
		for _, q := range batch {
			found := 0
			for _, word := range all {
				for _, id := range q.IDs {
					if id == (words{}).IDs(word)[0] {
						found++
					}
				}
			}
			out = append(out, map[bool]float32{false: -3 + float32(found)/10, true: 3}[found >= len(all)])
		}
		return out, nil
	})
}

// A violation between two sentences is found, and credited to the worse of them. Nothing else about the result changes.
func TestWholeReading(t *testing.T) {
	const told = "Six million? It was a few thousand."
	text := func(s string) Item { return Item{Response: &s} }
	for name, c := range map[string]struct {
		item    Item
		limit   int
		margins []float32 // of the instances
	}{
		"a violation between two sentences": {text(told), 40, []float32{-2.9, 3}},
		"of its length":                     {text(told), 35, []float32{-2.9, 3}},
		"longer":                            {text(told), 34, []float32{-2.9, -2.8}},
		"off":                               {text(told), 0, []float32{-2.9, -2.8}},
		"white space is not read":           {text("  " + told + "\n\n"), 35, []float32{-2.9, 3}},
		"one sentence":                      {text("It was six million."), 40, []float32{-2.9}},
		"given instances":                   {Item{Instances: []string{"Six million?", "It was a few thousand."}}, 40, []float32{-2.9, -2.8}},
		"reasoning is not read":             {text("<think>Six million?</think>It was so. A few thousand."), 60, []float32{-2.8, -2.9}},
		"the answer is":                     {text("<think>Hm.</think>" + told), 40, []float32{-2.9, 3}},
		"messages":                          {Item{Messages: []Message{{RoleAssistant, "Six million?"}, {"user", "It was?"}, {RoleAssistant, "Yes. A few thousand."}}}, 60, []float32{-2.9, -3, -2.9}},
		"one of the messages":               {Item{Messages: []Message{{RoleAssistant, "Six."}, {"user", "Hm?"}, {RoleAssistant, told}}}, 60, []float32{-3, -2.9, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScorer(t, ScorerConfig{WholeCharacters: c.limit}, denial("million?", "was", "thousand."))
			r := score(t, s, Request{Responses: []Item{c.item}})[0]
			require.Len(t, r.Instances, len(c.margins))
			highest, witness := 0.0, 0
			for i, m := range c.margins {
				require.InDelta(t, Violation(m), r.Instances[i].Violation, 1e-6, "instance %d", i)
				if v := r.Instances[i].Violation; v > highest {
					highest, witness = v, i
				}
			}
			require.Equal(t, highest, r.Violation)
			require.Equal(t, witness, r.Witness.Index)
			require.Equal(t, highest, r.Witness.Violation)
		})
	}
}

// Each aspect has a witness of its own, equal sentences elsewhere keep their scores, and nothing decreases.
func TestWholeReadingOnlyRaisesTheWitness(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	m := &liveModel{aspects: 3}
	plain := liveScorer(t, m, nil)
	whole := liveScorer(t, m, func(c *ScorerConfig) { c.WholeCharacters = 60 })
	raised := 0
	for range 2000 {
		text, o := randomText(random), Options{Aspects: true, Reasoning: ReasoningScore}
		items := []Item{{ID: "a", Response: &text}, {ID: "b", Response: new("I am well. They are awful. Ja!")}}
		was, is := score(t, plain, Request{Responses: items, Options: o}), score(t, whole, Request{Responses: items, Options: o})
		for r := range was {
			require.Len(t, is[r].Instances, len(was[r].Instances))
			for aspect, before := range was[r].Aspects {
				after := is[r].Aspects[aspect]
				require.GreaterOrEqual(t, after.Violation, before.Violation)
				require.Equal(t, before.Threshold, after.Threshold)
				for i := range was[r].Instances {
					b, a := was[r].Instances[i].Aspects[aspect], is[r].Instances[i].Aspects[aspect]
					if a != b {
						raised++
						require.Equal(t, before.Witness.Index, i, text)
						require.Greater(t, a, b)
					}
				}
			}
		}
	}
	require.Greater(t, raised, 200)
}

// A session gives the same result as one request, and its last event the same reward, unless all utterances had been
// reported before the response ended.
func TestLiveWholeReading(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	s := liveScorer(t, &liveModel{aspects: 2}, func(c *ScorerConfig) { c.MaxInstances, c.WholeCharacters = 9, 60 })
	late := 0
	for range 1500 {
		text, o := randomText(random), randomOptions(random, 2)
		name := fmt.Sprintf("%q with %+v", text, o)
		l, err := s.Live(t.Context(), LiveRequest{ID: "x", Options: o})
		require.NoError(t, err)
		events, got := feedAll(t, l, text, func() int { return 1 + random.IntN(40) })
		want, err := s.Score(t.Context(), Request{Responses: []Item{{ID: "x", Response: &text}}, Options: o})
		require.NoError(t, err)
		got.TimingMS, want.TimingMS = Timing{}, Timing{}
		require.Equal(t, want, got, name)
		kept := settled(events)
		require.Len(t, kept, len(got.Results[0].Instances), name)
		if len(kept) == 0 {
			continue
		}
		if last := kept[len(kept)-1]; last.Reward != got.Results[0].Reward {
			require.GreaterOrEqual(t, got.Results[0].Violation, last.Violation, name)
			late++
		}
	}
	require.Less(t, late, 500)
}
