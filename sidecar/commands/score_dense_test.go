package commands_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"assay/sidecar/cli"
	"assay/sidecar/processtest"
)

// Token rewards come with the offsets of a line, with the tokenizer of the
// model, and with one of a policy, and sum up to the reward.
func TestScoreDense(t *testing.T) {
	model := processtest.TinyModel(t, nil)
	score := func(in string, args ...string) (string, string, int) {
		return assay(t, in, append([]string{"score", "--model", model, "--threads", "1", "--no-instances"}, args...)...)
	}
	const lines = `{"id":"given","response":"Fine. Not fine.","token_offsets":[[0,4],[4,5],[5,9],[9,15],[0,0]]}` + "\n" +
		`{"id":"made","response":"Fine 😀. Not fine."}` + "\n"
	for _, args := range [][]string{
		{"--dense", "last", "--tokenizer", "assay"},
		{"--dense", "instance", "--tokenizer", "tiny-1", "--reward", "logit"},
		{"--dense", "witness", "--tokenizer", "p", "--policy-tokenizer", "p=" + processtest.BPEDir(t), "--aggregate", "mean"},
		{"--dense", "shaped", "--tokenizer", "p", "--policy-tokenizer", "p=" + processtest.BPEDir(t), "--offset-unit", "utf16"},
	} {
		stdout, stderr, code := score(lines, args...)
		require.Equal(t, cli.ExitDone, code, stderr)
		got := processtest.Results(t, stdout)
		require.Len(t, got, 2)
		for i, r := range got {
			sum := 0.0
			for _, x := range r.TokenRewards {
				sum += x
			}
			require.InDelta(t, r.Reward, sum, 1e-9, "%v", args)
			require.Equal(t, i == 1, r.TokenOffsets != nil)
		}
		require.Len(t, got[0].TokenRewards, 5)
		require.Len(t, got[1].TokenRewards, len(got[1].TokenOffsets))
	}

	for want, args := range map[string][]string{
		"line 1: responses[0].token_offsets": nil,
		"line 2: responses[0]":               {"--dense", "last"},
		"--gamma is 0":                       {"--dense", "last", "--gamma", "0"},
		"--tokenizer p":                      {"--tokenizer", "p"},
		"options.tokenizer: unknown":         {"--dense", "last", "--tokenizer", "p"},
		"give NAME=DIR":                      {"--policy-tokenizer", "p"},
		"duplicate name p":                   {"--policy-tokenizer", "p=" + processtest.BPEDir(t), "--policy-tokenizer", "p=" + processtest.BPEDir(t)},
		"--policy-tokenizer p=nowhere":       {"--policy-tokenizer", "p=nowhere"},
	} {
		_, stderr, code := score(lines, args...)
		require.Equal(t, cli.ExitUsage, code, "%v: %s", args, stderr)
		require.Contains(t, stderr, want)
	}
}
