package main

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
)

// A private service answers nobody who does not know its token, over HTTP, gRPC
// and NATS, although they are on the same machine. The command line knows it.
func TestPrivateServiceKeepsOtherUsersOut(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	p := serve(t, tinyModel(t, nil), data, "--private", "--train-auto=false")
	info, err := os.Stat(filepath.Join(data, "token"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	token := cli.ReadPrivateToken(data)
	require.GreaterOrEqual(t, len(token), 26)

	for _, path := range []string{"/v1/models", "/v1/training", "/v1/feedback", "/v1/events"} {
		status, _ := get(t, p.ready.HTTP+path)
		require.Equal(t, http.StatusUnauthorized, status, path)
	}
	status, _ := get(t, p.ready.HTTP+"/readyz")
	require.Equal(t, http.StatusOK, status)
	_, err = nats.Connect(p.ready.NATS)
	require.ErrorIs(t, err, nats.ErrAuthorization)

	elsewhere := t.TempDir()
	for _, c := range []struct {
		stdin string
		args  []string
	}{
		{"", []string{"models", "list", "--url", p.ready.HTTP}},
		{"", []string{"training", "status", "--url", p.ready.HTTP}},
		{`{"id":"a","label":"compliant","response":"Fine."}` + "\n", []string{"feedback", "send", "--url", p.ready.HTTP}},
		{"Fine.\n", []string{"score", "--text", "--nats-url", p.ready.NATS}},
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
	out, err := exec.CommandContext(t.Context(), "sh", "-c", printed(t, p)).CombinedOutput()
	require.NoError(t, err)
	require.Contains(t, string(out), `"results"`)
	// A start that fails because the service runs leaves it its token.
	_, _, code := assay(t, "", "serve", "--model", tinyModel(t, nil), "--data-dir", data, "--private", "--nats", "off", "--listen", strings.TrimPrefix(p.ready.HTTP, "http://"))
	require.Equal(t, cli.ExitFailed, code)
	require.Equal(t, token, cli.ReadPrivateToken(data))
	p.signal(t)
	require.Equal(t, cli.ExitDone, p.wait(t))
	require.NotContains(t, p.output(), token)
	require.Contains(t, p.output(), "--data-dir "+data)

	// It is another one after a restart, alongside those of a token file: who
	// obtained the first has no use for it.
	file := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(file, []byte("the-token-of-a-trainer score\n"), 0o600))
	p = serve(t, tinyModel(t, nil), data, "--private", "--token-file", file, "--nats", "off")
	for bearer, want := range map[string]int{token: 401, cli.ReadPrivateToken(data): 200, "the-token-of-a-trainer": 200, "some-other-token-some": 401} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.ready.HTTP+"/v1/models", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+bearer)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, want, answer.StatusCode)
	}
}

func TestTokensAreAskedForOnThisMachine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(file, []byte("the-token-of-a-trainer score\n"), 0o600))
	model := tinyModel(t, nil)
	for flag, want := range map[string]int{"--train": 401, "--trust-loopback": 200} {
		p := serve(t, model, t.TempDir(), "--nats", "off", "--token-file", file, flag)
		status, _ := get(t, p.ready.HTTP+"/v1/models")
		require.Equal(t, want, status, flag)
		_, stderr, code := assay(t, "", "health", "--listen", strings.TrimPrefix(p.ready.HTTP, "http://"))
		require.Equal(t, cli.ExitDone, code, stderr)
	}
}
