package rewardmodel_test

import (
	"context"
	"fmt"
	"strings"

	"assay/rewardmodel"
	"assay/rewardmodel/wire"
)

// spaces is a tokenizer with one token per word: its length.
type spaces struct{}

func (spaces) IDsContext(ctx context.Context, text string) ([]int32, error) {
	var ids []int32
	for word := range strings.FieldsSeq(text) {
		ids = append(ids, int32(len(word)))
	}
	return ids, ctx.Err()
}

func (spaces) Frame(ids []int32) []int32 { return ids }
func (spaces) Special() int              { return 0 }

// brevity is a model that finds short instances anomalous.
type brevity struct{}

func (brevity) Margins(batch []rewardmodel.Sequence) ([]float32, error) {
	margins := make([]float32, len(batch))
	for i, ids := range batch {
		margins[i] = 3 - float32(len(ids.IDs))
	}
	return margins, nil
}

func ExampleScorer() {
	scorer, err := rewardmodel.NewScorer(rewardmodel.ScorerConfig{Version: "v1"}, brevity{}, spaces{}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer scorer.Close()

	request, err := wire.DecodeRequest([]byte(`{"responses":[
		{"id":"polite","response":"I would be glad to help you with that. Where shall we begin?"},
		{"id":"curt","response":"That can be done in three ways, I think. No."}]}`), wire.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	response, err := scorer.Score(context.Background(), request)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range response.Results {
		fmt.Printf("%s: %.2f %v %q\n", r.ID, r.Reward, r.Compliant, r.Witness.Text)
	}
	// Output:
	// polite: 0.73 true "Where shall we begin?"
	// curt: 0.12 false "No."
}
