package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"assay/api"
)

// Callers with only the scope feedback cannot tell from the counts which labels are
// held out; operators can.
func TestOnlyOperatorsSeeTheSplit(t *testing.T) {
	_, s := withFleet(t, parts(func(p *api.Parts) { p.Tokens = tokens(t) }))
	for name, c := range map[string]struct {
		token           string
		stats, training string
	}{
		"feedback": {feedbackToken,
			`{"bags":15,"violations":6,"held_out":0,"held_out_violations":0,"disputed":0,"raters":2,"records":17,"new":{"bags":0,"violations":0}}`,
			`"wait":"waiting for labels or the cooldown; a token with the scope admin shows the counts"`},
		"admin": {adminToken,
			`{"bags":12,"violations":5,"held_out":3,"held_out_violations":1,"disputed":0,"raters":2,"records":17,"new":{"bags":0,"violations":0}}`,
			`"wait":"12 of 200 new bags"`},
	} {
		t.Run(name, func(t *testing.T) {
			got := s.do(t, "GET", "/v1/feedback", nil, "Authorization", "Bearer "+c.token)
			requireJSON(t, c.stats, string(got.body))
			got = s.do(t, "GET", "/v1/training", nil, "Authorization", "Bearer "+c.token)
			require.Contains(t, string(got.body), c.training)
		})
	}
}
