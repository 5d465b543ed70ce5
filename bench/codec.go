package bench

import (
	"fmt"
	"github.com/go-json-experiment/json"
	"math"

	"assay/rewardmodel"
	"assay/rewardmodel/wire"
)

// codec is how a protocol asks for scores. Decode gives one number a response that grows with its violation; its scale
// is the server's own.
type codec interface {
	Encode(batch []Response) ([]byte, error)
	Decode(answer []byte, batch []Response) ([]float64, error)
}

// assayCodec is assay's own protocol, with its default options.
type assayCodec struct{}

func (assayCodec) Encode(batch []Response) ([]byte, error) {
	items := make([]rewardmodel.Item, len(batch))
	for i := range batch {
		items[i].Response = &batch[i].Text
	}
	return wire.AppendRequest(nil, rewardmodel.Request{Responses: items})
}

func (assayCodec) Decode(answer []byte, batch []Response) ([]float64, error) {
	var got struct {
		Results []struct {
			Violation float64 `json:"violation"`
		} `json:"results"`
	}
	if err := json.Unmarshal(answer, &got); err != nil {
		return nil, err
	}
	scores := make([]float64, len(got.Results))
	for i, r := range got.Results {
		scores[i] = r.Violation
	}
	return scores, sameLength("results", len(scores), len(batch))
}

// queryCodec is the protocol of OpenRLHF's reward servers with a whole response in each query.
type queryCodec struct{}

type query struct {
	Query   []string `json:"query"`
	Prompts []string `json:"prompts,omitzero"`
}

type rewards struct {
	Rewards []float64 `json:"rewards"`
}

func (queryCodec) Encode(batch []Response) ([]byte, error) {
	q := query{Prompts: make([]string, len(batch))}
	for _, r := range batch {
		q.Query = append(q.Query, r.Text)
	}
	return json.Marshal(q)
}

func (queryCodec) Decode(answer []byte, batch []Response) ([]float64, error) {
	var got rewards
	if err := json.Unmarshal(answer, &got); err != nil {
		return nil, err
	}
	for i := range got.Rewards {
		got.Rewards[i] = -got.Rewards[i]
	}
	return got.Rewards, sameLength("rewards", len(got.Rewards), len(batch))
}

// utteranceCodec is the same protocol towards a server that gives each utterance a margin; the largest is the
// response's.
type utteranceCodec struct{}

func (utteranceCodec) Encode(batch []Response) ([]byte, error) {
	return json.Marshal(query{Query: flat(batch)})
}

func (utteranceCodec) Decode(answer []byte, batch []Response) ([]float64, error) {
	var got rewards
	if err := json.Unmarshal(answer, &got); err != nil {
		return nil, err
	}
	return largest(got.Rewards, batch)
}

// classifyCodec is infinity's /classify.
type classifyCodec struct{}

func (classifyCodec) Encode(batch []Response) ([]byte, error) {
	return json.Marshal(struct {
		Model string   `json:"model"`
		Input []string `json:"input"`
	}{servedName, flat(batch)})
}

func (classifyCodec) Decode(answer []byte, batch []Response) ([]float64, error) {
	var got struct {
		Data [][]struct {
			Label string  `json:"label"`
			Score float64 `json:"score"`
		} `json:"data"`
	}
	if err := json.Unmarshal(answer, &got); err != nil {
		return nil, err
	}
	scores := make([]float64, len(got.Data))
	for i, labels := range got.Data {
		for _, l := range labels {
			if l.Label == violationLabel {
				scores[i] = l.Score
			}
		}
	}
	return largest(scores, batch)
}

const (
	servedName     = "model" // as infinity calls the model that it serves
	violationLabel = "violation"
)

func flat(batch []Response) []string {
	var all []string
	for _, r := range batch {
		all = append(all, r.Utterances...)
	}
	return all
}

// largest is the score of each response from those of its utterances.
func largest(scores []float64, batch []Response) ([]float64, error) {
	out, at := make([]float64, len(batch)), 0
	for i, r := range batch {
		out[i] = math.Inf(-1)
		for range r.Utterances {
			if at < len(scores) {
				out[i] = max(out[i], scores[at])
			}
			at++
		}
	}
	return out, sameLength("scores of utterances", len(scores), at)
}

func sameLength(what string, got, want int) error {
	if got != want {
		return fmt.Errorf("the server answered %d %s to %d", got, what, want)
	}
	return nil
}
