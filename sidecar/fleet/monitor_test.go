package fleet

import (
	"context"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
)

// A panic while a feedback text is scored does not end the process.
func TestMonitorSurvivesAPanic(t *testing.T) {
	m := newMonitor(nil, panickyScorer{}, zerolog.Nop())
	require.ErrorContains(t, m.compare(t.Context(), labelled{}), "panic: boom")
}

type panickyScorer struct{}

func (panickyScorer) Score(context.Context, rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	panic("boom")
}
