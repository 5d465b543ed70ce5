package commands

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
	"assay/rewardmodel/gate"
	"assay/rewardmodel/logistic"
)

// The gate compares models with one threshold for all lengths, so the margins are corrected for theirs.
func TestGateMarginsAreCorrectedForTheLength(t *testing.T) {
	const top = rewardmodel.AggregateMax
	aspects := []rewardmodel.Aspect{
		{Name: "long", Weight: 1, Thresholds: map[rewardmodel.Aggregate]float64{top: 0.8}, LengthSlope: 2},
		{Name: "plain", Weight: 1},
	}
	m := setMargins{aspects: []gate.Margins{{}, {}}, whole: gate.Margins{}}
	instance := rewardmodel.Instance{Aspects: map[string]float64{"long": 0.9, "plain": 0.2}}
	blank := rewardmodel.Instance{}
	m.add(rewardmodel.Item{Instances: []string{"One.", " ", "Two.", "Three."}}, rewardmodel.Result{Instances: []rewardmodel.Instance{instance, blank, instance, instance}}, aspects)
	corrected := logistic.Logit(0.9) - 2*math.Log(3)
	require.InDelta(t, corrected, m.aspects[0][top][0], 1e-6)
	require.InDelta(t, logistic.Logit(0.9), m.aspects[0][rewardmodel.AggregateMean][0], 1e-6, "others are not corrected")
	require.InDelta(t, logistic.Logit(0.2), m.aspects[1][top][0], 1e-6)
	require.InDelta(t, logistic.Logit(0.2), m.whole[top][0], 1e-6, "the first aspect complies by more")
}
