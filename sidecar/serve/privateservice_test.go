package serve_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"assay/sidecar/cli"
	"assay/sidecar/processtest"
)

// A private service rejects callers without its token over HTTP, gRPC and NATS, even
// on the same machine. The command line reads the token.
func TestPrivateServiceKeepsOtherUsersOut(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	p := processtest.Serve(t, processtest.TinyModel(t, nil), data, "--private", "--train-auto=false")
	info, err := os.Stat(filepath.Join(data, "token"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	token := privateToken(t, data)
	require.GreaterOrEqual(t, len(token), 26)

	for _, path := range []string{"/v1/models", "/v1/training", "/v1/feedback", "/v1/events"} {
		status, _ := processtest.Get(t, p.Ready.HTTP+path)
		require.Equal(t, http.StatusUnauthorized, status, path)
	}
	status, _ := processtest.Get(t, p.Ready.HTTP+"/readyz")
	require.Equal(t, http.StatusOK, status)
	_, err = nats.Connect(p.Ready.NATS)
	require.ErrorIs(t, err, nats.ErrAuthorization)

	elsewhere := t.TempDir()
	for _, c := range []struct {
		stdin string
		args  []string
	}{
		{"", []string{"models", "list", "--url", p.Ready.HTTP}},
		{"", []string{"training", "status", "--url", p.Ready.HTTP}},
		{`{"id":"a","label":"compliant","response":"Fine."}` + "\n", []string{"feedback", "send", "--url", p.Ready.HTTP}},
		{"Fine.\n", []string{"score", "--text", "--nats-url", p.Ready.NATS}},
	} {
		_, stderr, code := assay(t, c.stdin, append(c.args, "--data-dir", data)...)
		require.Equal(t, cli.ExitDone, code, "%v: %s", c.args, stderr)
		_, stderr, code = assay(t, c.stdin, append(c.args, "--data-dir", elsewhere)...)
		require.NotEqual(t, cli.ExitDone, code, "%v: %s", c.args, stderr)
		t.Setenv("ASSAY_DATA_DIR", data)
		_, stderr, code = assay(t, c.stdin, c.args...)
		require.Equal(t, cli.ExitDone, code, "%v: %s", c.args, stderr)
		t.Setenv("ASSAY_DATA_DIR", elsewhere)
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", processtest.SampleCommand(t, p)).CombinedOutput()
	require.NoError(t, err)
	require.Contains(t, string(out), `"results"`)
	// A start that fails because the service is running keeps its token.
	_, _, code := assay(t, "", "serve", "--model", processtest.TinyModel(t, nil), "--data-dir", data, "--private", "--nats", "off", "--listen", strings.TrimPrefix(p.Ready.HTTP, "http://"))
	require.Equal(t, cli.ExitFailed, code)
	require.Equal(t, token, privateToken(t, data))
	p.Signal(t)
	require.Equal(t, cli.ExitDone, p.Wait(t))
	require.NotContains(t, p.Output(), token)
	require.Contains(t, p.Output(), "--data-dir "+data)

	// After a restart the token is another one, in addition to those of a token file,
	// so that a leaked token becomes invalid.
	file := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(file, []byte("the-token-of-a-trainer score\n"), 0o600))
	p = processtest.Serve(t, processtest.TinyModel(t, nil), data, "--private", "--token-file", file, "--nats", "off")
	for bearer, want := range map[string]int{token: 401, privateToken(t, data): 200, "the-token-of-a-trainer": 200, "some-other-token-some": 401} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.Ready.HTTP+"/v1/models", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+bearer)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, want, answer.StatusCode)
	}
}

func TestLoopbackClientsNeedTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(file, []byte("the-token-of-a-trainer score\n"), 0o600))
	model := processtest.TinyModel(t, nil)
	for flag, want := range map[string]int{"--train": 401, "--trust-loopback": 200} {
		p := processtest.Serve(t, model, t.TempDir(), "--nats", "off", "--token-file", file, flag)
		status, _ := processtest.Get(t, p.Ready.HTTP+"/v1/models")
		require.Equal(t, want, status, flag)
		_, stderr, code := assay(t, "", "health", "--listen", strings.TrimPrefix(p.Ready.HTTP, "http://"))
		require.Equal(t, cli.ExitDone, code, stderr)
	}
}

// privateToken is the token in a data directory.
func privateToken(t *testing.T, data string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(data, cli.PrivateTokenFile))
	require.NoError(t, err)
	return strings.TrimSpace(string(text))
}
