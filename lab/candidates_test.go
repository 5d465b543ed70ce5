package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/sidecar/cli"
	"assay/sidecar/processtest"
)

func TestBenchCandidates(t *testing.T) {
	bags := processtest.BagFile(t, 20)
	args := []string{"candidates", "--bags", bags, "--test", bags, "--init", processtest.TinyModel(t, nil), "--threads", "1", "--epochs", "1"}
	stdout, stderr, code := lab(t, "", append(args, "--start", "10", "--step", "2", "--rounds", "2", "--seeds", "0,1", "--ask", "random,candidates,diverse")...)
	require.Equal(t, cli.ExitDone, code, stderr)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	require.Len(t, lines, 1+1+2*3+2, stdout)
	require.Equal(t, []string{"10", "random"}, []string{strings.Fields(lines[1])[0], strings.Fields(lines[1])[2]})
	require.Equal(t, []string{"14", "diverse"}, []string{strings.Fields(lines[7])[0], strings.Fields(lines[7])[2]})
	require.Contains(t, lines[9], "all rounds")

	for says, more := range map[string][]string{
		"--bags holds 20 bags":      {"--start", "19", "--step", "2", "--rounds", "1"},
		"--violations is 1":         {"--violations", "1"},
		"--start, --step, --rounds": {"--start", "0"},
		"--ask":                     {"--ask", "nothing"},
	} {
		_, stderr, code := lab(t, "", append(args, more...)...)
		require.Equal(t, cli.ExitUsage, code, says)
		require.Contains(t, stderr, says)
	}
}
