package bench

import (
	"fmt"
	"math"

	"github.com/go-json-experiment/json"

	"assay/rewardmodel"
	"assay/rewardmodel/wire"
)

// codec encodes requests and decodes replies of a protocol. Decode returns one score per response, which is higher for a
// more likely violation; its scale depends on the server.
type codec interface {
	Encode(batch []Response) ([]byte, error)
	Decode(reply []byte, batch []Response) ([]float64, error)
}

// assayCodec is the protocol of assay, with default options.
type assayCodec struct{}

func (assayCodec) Encode(batch []Response) ([]byte, error) {
	items := make([]rewardmodel.Item, len(batch))
	for i := range batch {
		items[i].Response = &batch[i].Text
	}
	return wire.AppendRequest(nil, rewardmodel.Request{Responses: items})
}

func (assayCodec) Decode(reply []byte, batch []Response) ([]float64, error) {
	var got struct {
		Results []struct {
			Violation float64 `json:"violation"`
		} `json:"results"`
	}
	if err := json.Unmarshal(reply, &got); err != nil {
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

// Decode returns the violations, as assayCodec does. The rewards rank responses otherwise: the threshold that they are
// relative to depends on the number of sentences.
func (queryCodec) Decode(reply []byte, batch []Response) ([]float64, error) {
	var got struct {
		Logs struct {
			Violation []float64 `json:"violation"`
		} `json:"extra_logs"`
	}
	if err := json.Unmarshal(reply, &got); err != nil {
		return nil, err
	}
	return got.Logs.Violation, sameLength("violations", len(got.Logs.Violation), len(batch))
}

// utteranceCodec is the same protocol for a server that scores each utterance by a margin. The score of a response is the
// maximum of its margins.
type utteranceCodec struct{}

func (utteranceCodec) Encode(batch []Response) ([]byte, error) {
	return json.Marshal(query{Query: utterances(batch)})
}

func (utteranceCodec) Decode(reply []byte, batch []Response) ([]float64, error) {
	var got rewards
	if err := json.Unmarshal(reply, &got); err != nil {
		return nil, err
	}
	return maxScores(got.Rewards, batch)
}

// classifyCodec is infinity's /classify.
type classifyCodec struct{}

func (classifyCodec) Encode(batch []Response) ([]byte, error) {
	return json.Marshal(struct {
		Model string   `json:"model"`
		Input []string `json:"input"`
	}{servedName, utterances(batch)})
}

func (classifyCodec) Decode(reply []byte, batch []Response) ([]float64, error) {
	var got struct {
		Data [][]struct {
			Label string  `json:"label"`
			Score float64 `json:"score"`
		} `json:"data"`
	}
	if err := json.Unmarshal(reply, &got); err != nil {
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
	return maxScores(scores, batch)
}

const (
	servedName     = "model" // of the model in infinity
	violationLabel = "violation"
)

// utterances returns the utterances of all responses, in order.
func utterances(batch []Response) []string {
	var all []string
	for _, r := range batch {
		all = append(all, r.Utterances...)
	}
	return all
}

// maxScores returns the maximum score of each response over its utterances.
func maxScores(scores []float64, batch []Response) ([]float64, error) {
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
		return fmt.Errorf("the server returned %d %s, want %d", got, what, want)
	}
	return nil
}
