package assay_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	assay "assay/clients/go"
)

// The token of a private service comes from the data directory of the option or
// of the environment, and is never sent to another machine.
func TestPrivateToken(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var sent string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header.Get("Authorization")
		reply(w, 200, answer(result("a", "0.75")))
	})
	for name, c := range map[string]struct {
		variable string
		options  []assay.Option
		want     string
	}{
		"directory":                  {"", []assay.Option{assay.WithDataDir(dir)}, "Bearer secret"},
		"environment":                {dir, []assay.Option{assay.WithDataDir("")}, "Bearer secret"},
		"directory over environment": {dir, []assay.Option{assay.WithDataDir(other)}, ""},
		"token over directory":       {dir, []assay.Option{assay.WithDataDir(dir), assay.WithToken("given")}, "Bearer given"},
		"not enabled":                {dir, nil, ""},
		"no token file":              {other, []assay.Option{assay.WithDataDir("")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("ASSAY_DATA_DIR", c.variable)
			if _, err := client(t, url, c.options...).ScoreAll(t.Context(), assay.Texts("a"), assay.Options{}); err != nil {
				t.Fatal(err)
			}
			if sent != c.want {
				t.Fatalf("sent %q, want %q", sent, c.want)
			}
		})
	}
	t.Run("replaced at a restart", func(t *testing.T) {
		c := client(t, url, assay.WithDataDir(dir))
		for _, token := range []string{"secret", "another"} {
			if err := os.WriteFile(filepath.Join(dir, "token"), []byte(token+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := c.ScoreAll(t.Context(), assay.Texts("a"), assay.Options{}); err != nil {
				t.Fatal(err)
			}
			if sent != "Bearer "+token {
				t.Fatalf("sent %q", sent)
			}
		}
	})
	proxied := func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the token was sent to another machine")
		}
		return nil, http.ErrServerClosed
	}
	c, err := assay.New("http://192.0.2.1", assay.WithDataDir(dir), assay.WithRetry(assay.Retry{}), assay.WithHTTPClient(&http.Client{Transport: transport(proxied)}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ScoreAll(t.Context(), assay.Texts("a"), assay.Options{}); err == nil {
		t.Fatal("no error")
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
