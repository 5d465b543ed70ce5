package wire

import (
	"reflect"
	"testing"

	"assay/rewardmodel"
)

func TestRequestSurvivesItsJSON(t *testing.T) {
	text, empty := "One. Two.", ""
	for name, want := range map[string]rewardmodel.Request{
		"plain": {Responses: []rewardmodel.Item{{Response: &text}, {ID: "b", Response: &empty}}},
		"full": {
			Model: "default",
			Responses: []rewardmodel.Item{
				{ID: "a", Prompt: "Why?", Messages: []rewardmodel.Message{{Role: rewardmodel.RoleAssistant, Content: text}}, Metadata: []byte(`{"k":[1]}`)},
				{Instances: []string{"One.", ""}},
			},
			Options: rewardmodel.Options{
				Reward: rewardmodel.RewardLogit, Aggregate: rewardmodel.AggregateTopK, OffsetUnit: rewardmodel.OffsetUTF16, Reasoning: rewardmodel.ReasoningScore,
				Instances: new(false), TopK: new(2),
			},
		},
		"dense": {
			Responses: []rewardmodel.Item{{Response: &text, TokenOffsets: [][2]int{{0, 0}, {0, 4}, {4, 9}}}, {Response: &empty, TokenOffsets: [][2]int{}}, {Response: &empty}},
			Options:   rewardmodel.Options{Dense: rewardmodel.DenseShaped, Gamma: new(0.5), Tokenizer: "policy"},
		},
	} {
		body, err := AppendRequest(nil, want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeRequest(body, Limits{})
		if err != nil {
			t.Fatalf("%s: %v in %s", name, err, body)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s decodes to %+v", name, body, got)
		}
	}
}
