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
	token := readPrivateToken(data)
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
	// A start that fails because the service runs leaves it its token.
	_, _, code := assay(t, "", "serve", "--model", tinyModel(t, nil), "--data-dir", data, "--private", "--nats", "off", "--listen", strings.TrimPrefix(p.ready.HTTP, "http://"))
	require.Equal(t, exitFailed, code)
	require.Equal(t, token, readPrivateToken(data))
	p.signal(t)
	require.Equal(t, exitDone, p.wait(t))
	require.NotContains(t, p.output(), token)
	require.Contains(t, p.output(), "--data-dir "+data)

	// It is another one after a restart, alongside those of a token file: who
	// obtained the first has no use for it.
	file := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(file, []byte("the-token-of-a-trainer score\n"), 0o600))
	p = serve(t, tinyModel(t, nil), data, "--private", "--token-file", file, "--nats", "off")
	for bearer, want := range map[string]int{token: 401, readPrivateToken(data): 200, "the-token-of-a-trainer": 200, "some-other-token-some": 401} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.ready.HTTP+"/v1/models", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+bearer)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, want, answer.StatusCode)
	}
}

// Each start replaces the token, whatever is there, and nobody else may read it.
func TestPrivateTokenIsReplaced(t *testing.T) {
	victim := filepath.Join(t.TempDir(), "victim")
	require.NoError(t, os.WriteFile(victim, []byte("mine"), 0o600))
	for name, before := range map[string]func(path string) error{
		"nothing":  func(string) error { return nil },
		"readable": func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("a", 26)), 0o644) },
		"link":     func(path string) error { return os.Symlink(victim, path) },
	} {
		t.Run(name, func(t *testing.T) {
			data := filepath.Join(t.TempDir(), "a", "b")
			path := filepath.Join(data, privateTokenFile)
			require.NoError(t, os.MkdirAll(data, 0o700))
			require.NoError(t, before(path))
			for _, token := range []string{"first", "second"} {
				require.NoError(t, writePrivateToken(data, token))
				require.Equal(t, token, readPrivateToken(data))
				info, err := os.Lstat(path)
				require.NoError(t, err)
				require.Equal(t, os.FileMode(0o600), info.Mode(), "a regular file")
			}
			entries, err := os.ReadDir(data)
			require.NoError(t, err)
			require.Len(t, entries, 1, "nothing else is left")
		})
	}
	kept, err := os.ReadFile(victim)
	require.NoError(t, err)
	require.Equal(t, "mine", string(kept))

	data := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(data, privateTokenFile), 0o700))
	require.ErrorContains(t, writePrivateToken(data, "first"), "--private: ")
	entries, err := os.ReadDir(data)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

// The token goes to no other machine, and not where other credentials are given.
func TestPrivateTokenStaysOnThisMachine(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, writePrivateToken(data, "its token"))
	for address, local := range map[string]bool{
		"http://127.0.0.1:8080": true, "http://localhost:1": true, "http://[::1]:8080/": true, "nats://127.0.0.9:4222": true, "nats://LOCALHOST": true,
		"http://10.0.0.1:8080": false, "http://assay:8080": false, "http://localhost.example": false, "127.0.0.1:8080": false, "": false,
		"nats://user:password@127.0.0.1": false, "http://127.0.0.1.example": false, "http://0.0.0.0:8080": false,
	} {
		require.Equal(t, local, maySeePrivateToken(address), address)
		want := ""
		if local {
			want = "its token"
		}
		require.Equal(t, want, clientFlags{URL: address, DataDir: data}.bearer(), address)
	}
	require.False(t, maySeePrivateToken("nats://127.0.0.1:4222", "nats://10.0.0.1:4222"))

	for name, f := range map[string]natsFlags{
		"token": {NatsToken: "x"}, "creds": {NatsCreds: "x"}, "nkey": {NatsNkey: "x"}, "cert": {NatsCert: "x"},
	} {
		f.NatsURL = "nats://127.0.0.1:4222"
		require.Nil(t, f.privateConfig(data).ReadToken, name)
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
