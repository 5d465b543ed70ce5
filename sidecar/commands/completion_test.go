package commands_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"assay/sidecar/cli"
)

func TestCompletionPrintsTheScriptOfAShell(t *testing.T) {
	for shell, part := range map[string]string{
		"bash": "complete -o default -F _assay assay", "zsh": "compdef _assay assay", "fish": "complete -c assay",
	} {
		stdout, stderr, code := assay(t, "", "completion", shell)
		require.Equal(t, cli.ExitDone, code, stderr)
		require.Contains(t, stdout, part)
		require.Contains(t, stdout, "nats-listen")
	}
	_, stderr, code := assay(t, "", "completion", "csh")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "csh")
}
