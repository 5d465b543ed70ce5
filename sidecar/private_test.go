package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// A private service answers nobody who does not know its token, over HTTP, gRPC
// and NATS, although they are on the same machine. The command line knows it.
func TestPrivateServiceKeepsOtherUsersOut(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	p := serve(t, tinyModel(t, nil), data, "--private", "--train-auto=false")
	info, err := os.Stat(filepath.Join(data, "token"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	token, err := readPrivateToken(data)
	require.NoError(t, err)
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
		require.Equal(t, exitDone, code, "%v: %s", c.args, stderr)
		_, stderr, code = assay(t, c.stdin, append(c.args, "--data-dir", elsewhere)...)
		require.NotEqual(t, exitDone, code, "%v: %s", c.args, stderr)
		t.Setenv("ASSAY_DATA_DIR", data)
		_, stderr, code = assay(t, c.stdin, c.args...)
		require.Equal(t, exitDone, code, "%v: %s", c.args, stderr)
		t.Setenv("ASSAY_DATA_DIR", elsewhere)
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", printed(t, p)).CombinedOutput()
	require.NoError(t, err)
	require.Contains(t, string(out), `"results"`)
	p.signal(t)
	require.Equal(t, exitDone, p.wait(t))
	require.NotContains(t, p.output(), token)
	require.Contains(t, p.output(), "--data-dir "+data)

	// It is the same after a restart, alongside those of a token file.
	file := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(file, []byte("the-token-of-a-trainer score\n"), 0o600))
	p = serve(t, tinyModel(t, nil), data, "--private", "--token-file", file, "--nats", "off")
	for bearer, want := range map[string]int{token: 200, "the-token-of-a-trainer": 200, "some-other-token-some": 401} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.ready.HTTP+"/v1/models", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+bearer)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, want, answer.StatusCode)
	}
}

// What others could know or replace is refused, with the fix.
func TestPrivateTokenMustBeASecret(t *testing.T) {
	for name, c := range map[string]struct {
		make func(path string) error
		says string
	}{
		"readable":  {func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("a", 26)), 0o644) }, "mode 0644"},
		"empty":     {func(path string) error { return os.WriteFile(path, nil, 0o600) }, "holds no token"},
		"directory": {func(path string) error { return os.Mkdir(path, 0o700) }, "not a regular file"},
		"link":      {func(path string) error { return os.Symlink("/etc/hostname", path) }, "not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			require.NoError(t, c.make(filepath.Join(data, "token")))
			_, err := makePrivateToken(data)
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, "remove it")
		})
	}
	data := filepath.Join(t.TempDir(), "a", "b")
	first, err := makePrivateToken(data)
	require.NoError(t, err)
	second, err := makePrivateToken(data)
	require.NoError(t, err)
	require.Equal(t, first, second)
	entries, err := os.ReadDir(data)
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing else is left")
}

// The token goes to no other machine, and not where other credentials are given.
func TestPrivateTokenStaysOnThisMachine(t *testing.T) {
	data := t.TempDir()
	token, err := makePrivateToken(data)
	require.NoError(t, err)
	for address, local := range map[string]bool{
		"http://127.0.0.1:8080": true, "http://localhost:1": true, "http://[::1]:8080/": true, "nats://127.0.0.9:4222": true, "nats://LOCALHOST": true,
		"http://10.0.0.1:8080": false, "http://assay:8080": false, "http://localhost.example": false, "127.0.0.1:8080": false, "": false,
		"nats://user:password@127.0.0.1": false, "http://127.0.0.1.example": false, "http://0.0.0.0:8080": false,
	} {
		got, err := privateTokenFor(data, address)
		require.NoError(t, err)
		require.Equal(t, local, got == token, address)
		require.Equal(t, !local, got == "", address)
	}
	got, err := privateTokenFor(data, "nats://127.0.0.1:4222", "nats://10.0.0.1:4222")
	require.NoError(t, err)
	require.Empty(t, got)

	for name, f := range map[string]natsFlags{
		"token": {NatsToken: "x"}, "creds": {NatsCreds: "x"}, "nkey": {NatsNkey: "x"}, "cert": {NatsCert: "x"},
	} {
		f.NatsURL = "nats://127.0.0.1:4222"
		with, err := f.withPrivateToken(data)
		require.NoError(t, err)
		require.Equal(t, f, with, name)
	}
	var sent string
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header.Get("Authorization")
		_, _ = w.Write([]byte("{}"))
	}))
	defer service.Close()
	_, _, code := assay(t, "", "models", "list", "--url", service.URL, "--data-dir", data, "--token", "given-given-given-given")
	require.Equal(t, exitDone, code)
	require.Equal(t, "Bearer given-given-given-given", sent)
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
		require.Equal(t, exitDone, code, stderr)
	}
}
