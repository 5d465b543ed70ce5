package api_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"assay/api"
	"assay/rewardmodel"
)

// constant is the simplest Scorer: every response is compliant.
type constant struct{}

func (constant) Score(_ context.Context, r rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	answer := rewardmodel.ScoreResponse{Model: rewardmodel.ModelInfo{Name: "constant", Version: "1"}, OffsetUnit: rewardmodel.OffsetCodepoint}
	for _, item := range r.Responses {
		answer.Results = append(answer.Results, rewardmodel.Result{ID: item.ID, Reward: 1, Compliant: true, Threshold: 0.5})
	}
	return answer, nil
}

func (constant) Models(context.Context) ([]api.Model, error) {
	return []api.Model{{Name: "constant", Version: "1", Threshold: 0.5}}, nil
}

func Example() {
	server, err := api.New(api.DefaultConfig(), api.Parts{Scorer: constant{}, Models: constant{}}, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		fmt.Println(err)
		return
	}
	listener := httptest.NewServer(server.Handler())
	defer listener.Close()

	for _, body := range []string{
		`{"responses":[{"id":"r1","response":"Drink some water and rest."}],"options":{"instances":false}}`,
		`{"responses":[]}`,
	} {
		r, err := http.Post(listener.URL+"/v1/score", "application/json", strings.NewReader(body))
		if err != nil {
			fmt.Println(err)
			return
		}
		answer, _ := io.ReadAll(r.Body)
		_ = r.Body.Close()
		fmt.Println(r.Status)
		if r.StatusCode == http.StatusOK {
			fmt.Print(string(answer))
		}
	}
	// Output:
	// 200 OK
	// {"model":{"name":"constant","version":"1"},"offset_unit":"codepoint","results":[{"id":"r1","reward":1,"compliant":true,"violation":0,"threshold":0.5,"witness":null,"truncated":false,"empty":false}],"timing_ms":{"queue":0,"tokenize":0,"inference":0,"total":0}}
	// 422 Unprocessable Entity
}
