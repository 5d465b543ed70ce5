package main

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/sidecar/cli"
)

// configMap is a folder as Kubernetes mounts a ConfigMap: what is in it are links
// through ..data, which is replaced as a whole.
type configMap struct {
	t       *testing.T
	dir     string
	version int
}

func mountConfigMap(t *testing.T, content string) *configMap {
	t.Helper()
	m := &configMap{t: t, dir: t.TempDir()}
	m.swap(content)
	require.NoError(t, os.Symlink("..data/assay.yaml", m.path()))
	return m
}

func (m *configMap) path() string { return filepath.Join(m.dir, "assay.yaml") }

func (m *configMap) swap(content string) {
	m.t.Helper()
	m.version++
	folder := "..2026_" + strings.Repeat("1", m.version)
	require.NoError(m.t, os.Mkdir(filepath.Join(m.dir, folder), 0o755))
	require.NoError(m.t, os.WriteFile(filepath.Join(m.dir, folder, "assay.yaml"), []byte(content), 0o600))
	next := filepath.Join(m.dir, "..data_tmp")
	require.NoError(m.t, os.Symlink(folder, next))
	require.NoError(m.t, os.Rename(next, filepath.Join(m.dir, "..data")))
}

// followed reads a command line, and returns what follows its settings and what
// that logs.
func followed(t *testing.T, args ...string) (*cli.Settings, *bytes.Buffer) {
	t.Helper()
	c, log, level := &commandLine{}, &bytes.Buffer{}, &cli.LogLevel{}
	parser, err := assayProgram().Parser(c, log, log)
	require.NoError(t, err)
	parsed, err := parser.Parse(args)
	require.NoError(t, err)
	return cli.NewSettings(assayProgram(), args, parsed, string(c.Config), level, c.Logger(log, level)), log
}

func TestSettingsTakeEffectOrAreNamed(t *testing.T) {
	m := mountConfigMap(t, "log-level: info\nmax-responses: 2\nthreads: 1\nnats-token: first-secret\n")
	s, log := followed(t, "serve", "--config", m.path(), "--max-in-flight", "7", "--log-format", "json")
	var most []int
	live := cli.LiveSettings{"max-responses": func(command any) error {
		most = append(most, command.(*serveCmd).MaxResponses)
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

	m.swap("log-level: debug\nmax-responses: 3\nthreads: 2\nmax-in-flight: 8\nnats-token: second-secret\n")
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

	m.swap("log-level: info\nmax-responses: 0\n")
	s.Reload(live)
	logged("fault", "--max-responses is 0")
	m.swap("max-response: 4\n")
	s.Reload(live)
	logged("fault", "max-response")
	s.Log.Debug().Msg("still shown")
	logged("still shown")

	require.NoError(t, os.Remove(filepath.Join(m.dir, "..data")))
	s.Reload(live)
	logged("cannot be read")
	s.Reload(live)
	logged() // once
	m.swap("log-level: debug\nmax-responses: 5\nthreads: 2\nnats-token: second-secret\n")
	s.Reload(live)
	logged("max-responses")
	require.Equal(t, []int{3, 5}, most)
}

func TestLimitsChangeUnderARunningService(t *testing.T) {
	m := mountConfigMap(t, "max-responses: 1\nlog-level: info\n")
	p := serve(t, tinyModel(t, nil), t.TempDir(), "--config", m.path(), "--log-format", "json")
	nc, _ := p.jetStream(t)
	const two = `{"responses":[{"response":"One."},{"response":"Two."}]}`
	status := func() int {
		resp, err := http.Post(p.ready.HTTP+"/v1/score", "application/json", strings.NewReader(two))
		require.NoError(t, err)
		defer resp.Body.Close()
		return resp.StatusCode
	}
	overNATS := func() string {
		reply, err := nc.Request(queue.SubjectScore, []byte(two), patience)
		require.NoError(t, err)
		return reply.Header.Get("Nats-Service-Error-Code")
	}
	require.Equal(t, http.StatusRequestEntityTooLarge, status())
	require.Equal(t, "413", overNATS())
	m.swap("max-responses: 2\nlog-level: debug\nthreads: 5\nmax-in-flight: 9\n")
	require.Eventually(t, func() bool { return status() == http.StatusOK }, patience, 20*time.Millisecond)
	require.Eventually(t, func() bool { return overNATS() == "" }, patience, 20*time.Millisecond)
	p.signal(t)
	require.Equal(t, cli.ExitDone, p.wait(t), p.output())
	require.Contains(t, p.output(), `"warn","setting":"max-in-flight"`)
	require.Contains(t, p.output(), `"level":"debug"`)
}
