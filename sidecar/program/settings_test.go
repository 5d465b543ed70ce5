package program_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/sidecar/cli"
	"assay/sidecar/daemon"
	"assay/sidecar/processtest"
	"assay/sidecar/program"
)

// followed parses a command line, and returns its settings and the log of their
// reloads.
func followed(t *testing.T, args ...string) (*cli.Settings, *bytes.Buffer) {
	t.Helper()
	c, log, level := &program.Commands{}, &bytes.Buffer{}, &cli.LogLevel{}
	parser, err := program.Assay().Parser(c, log, log)
	require.NoError(t, err)
	parsed, err := parser.Parse(args)
	require.NoError(t, err)
	return cli.NewSettings(program.Assay(), args, parsed, string(c.Config), level, c.Logger(log, level)), log
}

func TestSettingsTakeEffectOrAreLogged(t *testing.T) {
	m := processtest.MountConfigMap(t, "log-level: info\nmax-responses: 2\nthreads: 1\nnats-token: first-secret\n")
	s, log := followed(t, "serve", "--config", m.Path(), "--max-in-flight", "7", "--log-format", "json")
	var most []int
	live := cli.LiveSettings{"max-responses": func(command any) error {
		most = append(most, command.(*daemon.Serve).MaxResponses)
		return nil
	}}
	logged := func(says ...string) {
		t.Helper()
		for _, text := range says {
			require.Contains(t, log.String(), text)
		}
		if len(says) == 0 {
			require.Empty(t, log.String())
		}
		log.Reset()
	}
	s.Reload(live)
	logged()

	m.Swap("log-level: debug\nmax-responses: 3\nthreads: 2\nmax-in-flight: 8\nnats-token: second-secret\n")
	s.Log.Debug().Msg("hidden")
	s.Reload(live)
	require.NotContains(t, log.String(), "hidden")
	require.NotContains(t, log.String(), "secret", "no values: some are secrets")
	require.NotContains(t, log.String(), "max-in-flight", "a flag wins over the file, before and after")
	logged(`"info","setting":"log-level"`, `"info","setting":"max-responses"`, `"warn","setting":"threads"`, `"warn","setting":"nats-token"`,
		"takes effect at the next start")
	require.Equal(t, []int{3}, most)
	s.Log.Debug().Msg("shown")
	logged("shown")
	s.Reload(live)
	logged()

	m.Swap("log-level: info\nmax-responses: 0\n")
	s.Reload(live)
	logged("is invalid", "--max-responses is 0")
	m.Swap("max-response: 4\n")
	s.Reload(live)
	logged("is invalid", "max-response")
	s.Log.Debug().Msg("still shown")
	logged("still shown")

	require.NoError(t, os.Remove(filepath.Join(m.Dir, "..data")))
	s.Reload(live)
	logged("cannot read the file")
	s.Reload(live)
	logged() // once
	m.Swap("log-level: debug\nmax-responses: 5\nthreads: 2\nnats-token: second-secret\n")
	s.Reload(live)
	logged("max-responses")
	require.Equal(t, []int{3, 5}, most)
}
