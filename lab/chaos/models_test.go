package chaos_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
	"assay/sidecar/processtest"
)

// versions of the models that clients promote; the service starts with the first.
var versions = []string{"tiny-1", "tiny-2", "tiny-3"}

// models are small models, texts, and the rewards that each version computes for them without faults.
type models struct {
	dirs     []string
	texts    []string
	calm     map[string]scores // by version
	numerics map[string]string // by version
	weights  []byte            // of the first LayerNorm of each version
}

// scores are the rewards of texts by one version.
type scores struct {
	numerics string // "": they are equal up to rounding only
	rewards  map[string]float64
}

// newModels writes the models, and scores all texts with each of them.
func newModels(t *testing.T) *models {
	t.Helper()
	m := &models{calm: map[string]scores{}, numerics: map[string]string{}}
	rng := rand.New(rand.NewPCG(3, 3))
	for i := range 60 {
		var b strings.Builder
		for range 1 + rng.IntN(4) {
			b.WriteString([]string{"Train %d leaves at noon. ", "You fool, it is number %d. ", "Have a good trip, number %d. ", "Nobody asked you %d times. "}[rng.IntN(4)])
		}
		m.texts = append(m.texts, strings.TrimSpace(strings.ReplaceAll(b.String(), "%d", fmt.Sprint(i))))
	}
	for i, version := range versions {
		dir := filepath.Join(t.TempDir(), version)
		require.NoError(t, processtest.WriteTinyModel(dir, func(_ *checkpoint.Config, m *checkpoint.Manifest) {
			m.Version = version
			m.Threshold = 0.6 + 0.05*float64(i)
			m.Thresholds = map[string]float64{"max": m.Threshold, "mean": 0.4}
		}))
		m.dirs = append(m.dirs, dir)
		p := processtest.Start(t, processtest.Serving(dir, t.TempDir(), "--nats", "off", "--log-format", "json")...).AwaitWithin(t, startTimeout)
		var err error
		m.calm[version], err = m.score(t.Context(), http.DefaultClient, p.Ready.HTTP, "")
		require.NoError(t, err)
		m.numerics[version] = m.calm[version].numerics
		p.Kill()
	}
	m.weights = normWeights(t, m.dirs[0])
	return m
}

// score returns the reward of each text by a version; "": the current one.
func (m *models) score(ctx context.Context, client *http.Client, url, version string) (s scores, err error) {
	body, err := scoreRequest(version, m.texts)
	if err != nil {
		return s, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/score", bytes.NewReader(body))
	if err != nil {
		return s, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return s, err
	}
	defer response.Body.Close()
	var got rewardmodel.ScoreResponse
	switch err := json.UnmarshalRead(response.Body, &got); {
	case response.StatusCode != http.StatusOK:
		return s, errors.New(response.Status)
	case err != nil:
		return s, err
	}
	s = scores{numerics: got.Model.Numerics, rewards: map[string]float64{}}
	for i, r := range got.Results {
		s.rewards[m.texts[i]] = r.Reward
	}
	return s, nil
}

// scoreRequest is the body of a request for the rewards of texts.
func scoreRequest(version string, texts []string) ([]byte, error) {
	request := struct {
		Model     string `json:"model,omitzero"`
		Responses []item `json:"responses"`
	}{Model: version}
	for i, text := range texts {
		request.Responses = append(request.Responses, item{fmt.Sprint("t", i), text})
	}
	return json.Marshal(request)
}

// item is a response to score.
type item struct {
	ID       string `json:"id"`
	Response string `json:"response"`
}

// registerModels stores all versions in the registry.
func registerModels(t *testing.T, m *models, sys system) {
	t.Helper()
	at, ok := sys.pick(rand.New(rand.NewPCG(1, 1)))
	require.True(t, ok)
	replicas := 1
	if f, ok := sys.(*fleet); ok {
		replicas = f.copies()
	}
	for _, dir := range m.dirs[1:] {
		processtest.RegisterModel(t, at.nats, replicas, dir)
	}
}
