package rewardmodel

import (
	"reflect"
	"testing"
)

func TestRequestSurvivesItsJSON(t *testing.T) {
	text, empty := "One. Two.", ""
	for name, want := range map[string]Request{
		"plain": {Responses: []Item{{Response: &text}, {ID: "b", Response: &empty}}},
		"full": {
			Model: "default",
			Responses: []Item{
				{ID: "a", Prompt: "Why?", Messages: []Message{{Role: RoleAssistant, Content: text}}, Metadata: []byte(`{"k":[1]}`)},
				{Instances: []string{"One.", ""}},
			},
			Options: Options{
				Reward: RewardLogit, Aggregate: AggregateTopK, OffsetUnit: OffsetUTF16, Reasoning: ReasoningScore,
				Instances: new(false), TopK: new(2),
			},
		},
		"dense": {
			Responses: []Item{{Response: &text, TokenOffsets: [][2]int{{0, 0}, {0, 4}, {4, 9}}}, {Response: &empty, TokenOffsets: [][2]int{}}, {Response: &empty}},
			Options:   Options{Dense: DenseShaped, Gamma: new(0.5), Tokenizer: "policy"},
		},
	} {
		body, err := want.AppendJSON(nil)
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
