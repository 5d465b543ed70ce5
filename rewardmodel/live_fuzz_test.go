package rewardmodel

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzLive cuts a response anywhere: a session returns the result of Score, and its last
// events are the utterances of that result.
func FuzzLive(f *testing.F) {
	for _, text := range liveTexts {
		f.Add("I am well. "+text+"They are awful. "+text, "Why?", []byte{1, 7, 3}, false)
	}
	f.Add("<think>a</think> b", "Why?<think>\n", []byte{2}, true)
	s := liveScorer(f, &liveModel{aspects: 2}, func(c *ScorerConfig) { c.MaxInstances, c.WholeCharacters = 9, 60 })
	f.Fuzz(func(t *testing.T, text, prompt string, cuts []byte, provisional bool) {
		request := LiveRequest{ID: "x", Prompt: prompt}
		if provisional {
			request.Provisional = MinProvisional
		}
		l, err := s.Live(t.Context(), request)
		require.NoError(t, err)
		calls := 0
		events, got := feedAll(t, l, text, func() int {
			calls++
			if len(cuts) == 0 {
				return len(text)
			}
			return 1 + int(cuts[calls%len(cuts)])
		})
		want, err := s.Score(t.Context(), Request{Responses: []Item{{ID: "x", Prompt: prompt, Response: &text}}})
		require.NoError(t, err)
		got.TimingMS, want.TimingMS = Timing{}, Timing{}
		require.Equal(t, want, got)
		kept := settled(events)
		require.Len(t, kept, len(got.Results[0].Instances))
		for i, e := range kept {
			instance := got.Results[0].Instances[i]
			require.Equal(t, [2]int{instance.Start, instance.End}, [2]int{e.Utterance.Start, e.Utterance.End})
		}
	})
}
