package daemon

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/retrain"
)

// Every setting of the policy that can be out of range is reported by its flag.
func TestPolicyErrorsNameTheFlag(t *testing.T) {
	for message, change := range map[string]func(*retrain.Policy){
		"--train-min-bags is -1": func(p *retrain.Policy) { p.MinBags = -1 },
		"--train-min-bags is 39; use at least 40, --train-min-each of both": func(p *retrain.Policy) { p.MinBags = 39 },
		"--train-min-each is 0":                           func(p *retrain.Policy) { p.MinEach = 0 },
		"--train-cooldown is -1s":                         func(p *retrain.Policy) { p.Cooldown = -time.Second },
		"--train-drift is 1":                              func(p *retrain.Policy) { p.Drift = 1 },
		"--train-drift-min is 9":                          func(p *retrain.Policy) { p.DriftMin = 9 },
		"--train-disagreement is 1":                       func(p *retrain.Policy) { p.Disagreement = 1 },
		"--train-disagreement-min is 0":                   func(p *retrain.Policy) { p.DisagreementMin = 0 },
		"--train-every is -1ns":                           func(p *retrain.Policy) { p.Every = -1 },
		"--holdout-share is 0.6":                          func(p *retrain.Policy) { p.HoldoutShare = 0.6 },
		"--holdout-min is 0":                              func(p *retrain.Policy) { p.MinHeldOut = 0 },
		"--max-sender-share is 1.5; use a share in (0,1]": func(p *retrain.Policy) { p.MaxSenderShare = 1.5 },
	} {
		p := retrain.DefaultPolicy()
		change(&p)
		require.ErrorContains(t, nameFlag(p.Validate()), message)
	}
	require.NoError(t, nameFlag(retrain.DefaultPolicy().Validate()))
}
