package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/api"
	"assay/rewardmodel"
)

// twoRules scores '#' as a violation of the first rule and '!' as one of the second.
type twoRules struct{}

func (twoRules) Margins(batch []rewardmodel.Sequence) ([]float32, error) {
	var margins []float32
	for _, sequence := range batch {
		for _, mark := range "#!" {
			margin := float32(-3)
			if strings.ContainsRune(string(sequence.IDs), mark) {
				margin = 3
			}
			margins = append(margins, margin)
		}
	}
	return margins, nil
}

// twoRulesParts are a scorer with the aspects rudeness and evasion, and its model.
func twoRulesParts(t *testing.T) (*rewardmodel.Scorer, option) {
	t.Helper()
	aspects := []rewardmodel.Aspect{{Name: "rudeness", Weight: 1}, {Name: "evasion", Weight: 0.5}}
	scorer, err := rewardmodel.NewScorer(rewardmodel.ScorerConfig{Name: "default", Version: "v7", Aspects: aspects}, twoRules{}, runes{}, nil)
	require.NoError(t, err)
	t.Cleanup(scorer.Close)
	model := api.Model{Name: "default", Version: "v7", Aspects: aspects, Combination: rewardmodel.CombineMin}
	return scorer, parts(func(p *api.Parts) { p.Models = catalog{model} })
}

// In a weighted sum, one rule can compensate for the violation of another: the label
// of the class protocols is that of the larger probability.
func TestClassesOfASum(t *testing.T) {
	aspects := []rewardmodel.Aspect{{Name: "rudeness", Weight: 1}, {Name: "evasion", Weight: 0.5}}
	scorer, err := rewardmodel.NewScorer(rewardmodel.ScorerConfig{Version: "v7", Aspects: aspects, Combination: rewardmodel.CombineSum}, twoRules{}, runes{}, nil)
	require.NoError(t, err)
	t.Cleanup(scorer.Close)
	s := start(t, scorer)
	for text, want := range map[string]string{"Fine. Not ! fine.": "compliant", "Fine. Not # fine.": "violation"} {
		var classes struct {
			Data []struct {
				Label string
				Probs [2]float64
			}
		}
		a := s.do(t, http.MethodPost, "/classify", strings.NewReader(`{"input":"`+text+`"}`))
		require.NoError(t, json.Unmarshal(a.body, &classes), "%s", a.body)
		require.Equal(t, want, classes.Data[0].Label, "%s", a.body)
		require.Equal(t, want == "compliant", classes.Data[0].Probs[1] > 0.5, "%s", a.body)
	}
}

func startTwoRules(t *testing.T) *service {
	t.Helper()
	scorer, models := twoRulesParts(t)
	return start(t, scorer, models)
}

func TestAspects(t *testing.T) {
	s := startTwoRules(t)
	var scored struct {
		Results []struct {
			Aspect    string
			Aspects   map[string]struct{ Reward, Violation float64 }
			Instances []struct{ Aspects map[string]float64 }
		}
	}
	a := s.score(t, `{"responses":[{"response":"Fine. Not ! fine."}],"options":{"aspects":true,"combination":"sum","weights":{"evasion":2}}}`)
	require.NoError(t, json.Unmarshal(a.body, &scored), "%s", a.body)
	result := scored.Results[0]
	require.Equal(t, "evasion", result.Aspect)
	require.InDelta(t, 0.953, result.Aspects["rudeness"].Reward, 1e-3)
	require.InDelta(t, 0.953, result.Aspects["evasion"].Violation, 1e-3)
	require.InDelta(t, 0.953, result.Instances[1].Aspects["evasion"], 1e-3)
	require.NotContains(t, string(s.score(t, `{"responses":[{"response":"Fine."}]}`).body), `"aspects"`)

	var models struct {
		Data []struct {
			Combination string
			Aspects     []struct {
				Name              string
				Weight, Threshold float64
			}
		}
	}
	require.NoError(t, json.Unmarshal(s.get(t, "/v1/models").body, &models))
	require.Equal(t, "min", models.Data[0].Combination)
	require.Equal(t, "evasion", models.Data[0].Aspects[1].Name)
	require.Equal(t, 0.5, models.Data[0].Aspects[1].Weight)
}

// The reward client of OpenRLHF makes tensors of extra_logs.
func TestAspectsOfOpenRLHF(t *testing.T) {
	s := startTwoRules(t)
	var got struct {
		Logs map[string][]float64 `json:"extra_logs"`
	}
	a := s.do(t, http.MethodPost, "/get_reward", strings.NewReader(`{"query":["Q Fine. Not ! fine.","Q #"],"prompts":["Q","Q"]}`))
	require.NoError(t, json.Unmarshal(a.body, &got), "%s", a.body)
	require.InDeltaSlice(t, []float64{0.953, 0.047}, got.Logs["reward_rudeness"], 1e-3)
	require.InDeltaSlice(t, []float64{0.047, 0.953}, got.Logs["reward_evasion"], 1e-3)
	require.InDeltaSlice(t, []float64{0.953, 0.047}, got.Logs["violation_evasion"], 1e-3)
	for name, values := range got.Logs {
		require.Len(t, values, 2, name)
	}
}

// A detector reports what violates any rule, not only the one that decides.
func TestAspectsOfTheFMSDetector(t *testing.T) {
	aspects := []rewardmodel.Aspect{{Name: "rudeness", Weight: 1}, {Name: "evasion", Weight: 0.5}}
	detect := func() (found []string) {
		scorer, err := rewardmodel.NewScorer(rewardmodel.ScorerConfig{Name: "default", Version: "v7", Aspects: aspects}, twoRules{}, runes{}, nil)
		require.NoError(t, err)
		t.Cleanup(scorer.Close)
		s := start(t, scorer, parts(func(p *api.Parts) { p.Models = catalog{{Name: "default", Version: "v7", Aspects: aspects}} }))
		var got [][]struct {
			Start    int
			Text     string
			Score    float64
			Metadata struct{ Aspect string }
		}
		a := s.do(t, http.MethodPost, "/api/v1/text/contents", strings.NewReader(`{"contents":["é #. Fine. Not ! fine. #!."]}`))
		require.NoError(t, json.Unmarshal(a.body, &got), "%s", a.body)
		for _, d := range got[0] {
			require.InDelta(t, 0.953, d.Score, 1e-3)
			found = append(found, fmt.Sprint(d.Start, " ", d.Text, " ", d.Metadata.Aspect))
		}
		return found
	}
	require.Equal(t, []string{"0 é #. rudeness", "11 Not ! evasion", "23 #!. evasion", "23 #!. rudeness"}, detect())
	aspects[1].Weight = 0
	require.Equal(t, []string{"0 é #. rudeness", "23 #!. rudeness"}, detect(), "weight 0: reported in results only")
}

func TestAspectsOfTheOpenInferenceProtocol(t *testing.T) {
	s := startTwoRules(t)
	const path = "/v2/models/assay/infer"
	ask := func(outputs string) answer {
		return s.do(t, http.MethodPost, path, strings.NewReader(`{"inputs":[{"name":"text","shape":[2],"datatype":"BYTES","data":["Fine.","Not ! fine."]}]`+outputs+`}`))
	}
	var got struct {
		Outputs []struct {
			Name string
			Data []float64
		}
	}
	a := ask(`,"outputs":[{"name":"reward_evasion"},{"name":"violation_rudeness"}]`)
	require.NoError(t, json.Unmarshal(a.body, &got), "%s", a.body)
	require.Equal(t, "reward_evasion", got.Outputs[0].Name)
	require.InDeltaSlice(t, []float64{0.953, 0.047}, got.Outputs[0].Data, 1e-3)
	require.InDeltaSlice(t, []float64{0.047, 0.047}, got.Outputs[1].Data, 1e-3)
	require.NotContains(t, string(ask("").body), "evasion", "only on request")
	for _, unknown := range []string{"reward_tone", "reward_", "reward_a b"} {
		refused := ask(`,"outputs":[{"name":"` + unknown + `"}]`)
		require.Equal(t, 400, refused.StatusCode)
		require.Contains(t, string(refused.body), "outputs[0].name: unknown output")
	}
	for _, at := range []string{"/v2/models/assay", "/v2/models/assay/config"} {
		require.Contains(t, string(s.get(t, at).body), `"violation_evasion"`, at)
	}

	scorer, models := twoRulesParts(t)
	remote := startRPC(t, scorer, models)
	request := texts("Fine.")
	request.Outputs = requestedOutputs("reward_evasion")
	reply, err := infer(t, remote, request)
	require.NoError(t, err)
	require.InDelta(t, 0.953, reply.Outputs[0].Contents.Fp32Contents[0], 1e-3)
	request.Outputs = requestedOutputs("reward_tone")
	_, err = infer(t, remote, request)
	require.ErrorContains(t, err, "unknown output")
}
