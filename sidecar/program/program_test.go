package program_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"assay/queue/embedded"
	"assay/sidecar/cli"
	"assay/sidecar/program"
)

// parse parses a command line as Run does.
func parse(t *testing.T, args ...string) (*program.Commands, error) {
	t.Helper()
	c := &program.Commands{}
	parser, err := program.Assay().Parser(c, os.Stdout, os.Stderr)
	require.NoError(t, err)
	_, err = parser.Parse(args)
	return c, err
}

func configFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "assay.yaml")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestFlagBeatsEnvironmentBeatsFileBeatsDefault(t *testing.T) {
	file := configFile(t, `
# one file for all commands
threads: 3
cache-bytes: 1MiB
empty-reward: 2.5e-1
insecure: true
request-timeout: 90s
trusted-origin: [https://a.example, "https://b.example"]
listen: 0.0.0.0:80
top-k: 7
`)
	c, err := parse(t, "serve", "--config", file)
	require.NoError(t, err)
	require.Equal(t, 3, c.Serve.Threads, "the file beats the default")
	require.EqualValues(t, 1<<20, c.Serve.CacheBytes)
	require.Equal(t, 0.25, c.Serve.EmptyReward)
	require.True(t, c.Serve.Insecure)
	require.Equal(t, 90*time.Second, c.Serve.RequestTimeout)
	require.Equal(t, []string{"https://a.example", "https://b.example"}, c.Serve.TrustedOrigin)
	require.Equal(t, 30*time.Second, c.Serve.ShutdownTimeout, "the default is left")

	t.Setenv("ASSAY_THREADS", "4")
	t.Setenv("ASSAY_CONFIG", file)
	c, err = parse(t, "serve")
	require.NoError(t, err)
	require.Equal(t, 4, c.Serve.Threads, "the environment beats the file")
	require.EqualValues(t, 1<<20, c.Serve.CacheBytes, "the environment names the file")

	c, err = parse(t, "serve", "--threads", "5")
	require.NoError(t, err)
	require.Equal(t, 5, c.Serve.Threads, "the flag beats the environment")
}

func TestInvalidSettingsFailTheStart(t *testing.T) {
	for name, c := range map[string]struct {
		file, variable, value string
		args                  []string
		says                  []string
	}{
		"unknown key":          {file: "thread: 3", says: []string{`unknown key "thread"`, ".yaml"}},
		"underscores":          {file: "cache_bytes: 3", says: []string{`"cache_bytes"`, "did you mean cache-bytes?"}},
		"key twice":            {file: "threads: 3\nthreads: 4", says: []string{"threads"}},
		"no value":             {file: "threads:", says: []string{"threads", "no value"}},
		"nested":               {file: "nats:\n  url: x", says: []string{"nats", "scalar"}},
		"not a mapping":        {file: "- threads", says: []string{"not a mapping"}},
		"broken YAML":          {file: "threads: [1", says: []string{"--config"}},
		"bad value in a file":  {file: "threads: many", says: []string{"--threads", "many"}},
		"bad enum in a file":   {file: "precision: fp8", says: []string{"--precision", "fp8"}},
		"bad value in the env": {variable: "ASSAY_CACHE_BYTES", value: "lots", says: []string{"--cache-bytes", "ASSAY_CACHE_BYTES", "lots"}},
		"bad enum in the env":  {variable: "ASSAY_NATS", value: "maybe", says: []string{"--nats", "maybe"}},
		"bad flag value":       {args: []string{"--max-body", "big"}, says: []string{"--max-body", "big"}},
		"unknown flag":         {args: []string{"--treads=1"}, says: []string{"--treads", "--threads"}},
		"missing file":         {args: []string{"--config", "nowhere.yaml"}, says: []string{"nowhere.yaml"}},
		"empty reward":         {args: []string{"--empty-reward", "1.5"}, says: []string{"--empty-reward", "1.5"}},
		"not a number":         {args: []string{"--empty-reward", "NaN"}, says: []string{"--empty-reward"}},
		"no instances":         {args: []string{"--max-instances", "0"}, says: []string{"--max-instances"}},
		"no body":              {args: []string{"--max-body", "0"}, says: []string{"--max-body"}},
		"no live sessions":     {args: []string{"--live-sessions", "0"}, says: []string{"--live-sessions"}},
		"live without idling":  {args: []string{"--live-idle", "0s"}, says: []string{"--live-idle"}},
		"live without text":    {args: []string{"--live-bytes", "0"}, says: []string{"--live-bytes"}},
		"exposed":              {args: []string{"--listen", "0.0.0.0:8080"}, says: []string{"--listen", "--insecure"}},
		"exposed NATS":         {args: []string{"--nats-listen", "0.0.0.0:4222"}, says: []string{"--nats-listen", "--insecure"}},
		"exposed gRPC":         {args: []string{"--grpc-listen", ":8001"}, says: []string{"--grpc-listen", "--token-file"}},
		"exposed with health":  {args: []string{"--ops-listen", ":9090", "--listen", ":8080"}, says: []string{"--listen", "--insecure"}},
		"health on no port":    {args: []string{"--ops-listen", "0.0.0.0"}, says: []string{"--ops-listen", "port"}},
		"no port":              {args: []string{"--listen", "127.0.0.1"}, says: []string{"--listen"}},
		"odd port":             {args: []string{"--listen", "127.0.0.1:http?"}, says: []string{"--listen"}},
		"contradiction":        {args: []string{"--nats", "off", "--nats-url", "nats://x"}, says: []string{"--nats off", "--nats-url"}},
		"no time":              {args: []string{"--shutdown-timeout", "0s"}, says: []string{"--shutdown-timeout"}},
		"long drain":           {args: []string{"--drain-delay", "1m"}, says: []string{"--drain-delay", "--shutdown-timeout"}},
		"no deliveries":        {args: []string{"--max-deliver", "0"}, says: []string{"--max-deliver"}},
		"small payload":        {args: []string{"--nats-max-payload", "1KiB"}, says: []string{"--nats-max-payload"}},
		"no model":             {args: []string{"--model", "nowhere"}, says: []string{"--model nowhere"}},
		"two at once":          {args: []string{"--max-body", "0", "--max-responses", "0"}, says: []string{"--max-body", "--max-responses"}},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"serve"}, c.args...)
			if c.file != "" {
				args = append(args, "--config", configFile(t, c.file))
			}
			if c.variable != "" {
				t.Setenv(c.variable, c.value)
			}
			stdout, stderr, code := assay(t, "", args...)
			require.Equal(t, cli.ExitUsage, code, stderr)
			require.Empty(t, stdout)
			for _, part := range c.says {
				require.Contains(t, stderr, part)
			}
		})
	}
}

func TestEveryFlagIsDocumentedAndHasItsVariable(t *testing.T) {
	c := &program.Commands{}
	parser, err := program.Assay().Parser(c, os.Stdout, os.Stderr)
	require.NoError(t, err)
	require.NoError(t, kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok && flag.Name != "help" && flag.Name != "version" {
			require.NotEmpty(t, flag.Help, flag.Name)
			require.Equal(t, []string{"ASSAY_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))}, flag.Envs)
		}
		return next(nil)
	}))
	for _, command := range parser.Model.Leaves(true) {
		t.Run(command.Path(), func(t *testing.T) {
			stdout, stderr, code := assay(t, "", append(strings.Fields(command.Path()), "--help")...)
			require.Equal(t, cli.ExitDone, code)
			require.Empty(t, stderr)
			require.Contains(t, stdout, "Example")
			require.Contains(t, stdout, "assay "+command.Path())
		})
	}
}

func TestUsage(t *testing.T) {
	stdout, _, code := assay(t, "", "--help")
	require.Equal(t, cli.ExitDone, code)
	require.Contains(t, stdout, "tokenize")
	for _, args := range [][]string{nil, {"scores"}, {"segment", "a", "b"}, {"eval"}} {
		stdout, stderr, code := assay(t, "", args...)
		require.Equal(t, cli.ExitUsage, code, args)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "--help")
	}
}

func TestVersionFlag(t *testing.T) {
	want, _, code := assay(t, "", "version")
	require.Equal(t, cli.ExitDone, code)
	for _, args := range [][]string{{"--version"}, {"serve", "--version"}} {
		got, stderr, code := assay(t, "", args...)
		require.Equal(t, cli.ExitDone, code)
		require.Empty(t, stderr)
		require.Equal(t, want, got)
	}
}

// Without a flag, the embedded server syncs before it acknowledges.
func TestSyncModes(t *testing.T) {
	for name, tc := range map[string]struct {
		args     []string
		interval time.Duration
	}{
		"default":  {nil, 0},
		"always":   {[]string{"--sync", "always"}, 0},
		"interval": {[]string{"--sync", "interval"}, embedded.RelaxedSync},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := parse(t, append([]string{"serve", "--model", "m"}, tc.args...)...)
			require.NoError(t, err)
			cfg, err := c.Serve.Config()
			require.NoError(t, err)
			require.Equal(t, tc.interval, cfg.Queue.Server.SyncInterval)
		})
	}
}
