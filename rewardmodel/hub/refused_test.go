package hub

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/hub/hubtest"
)

func TestAccessDenied(t *testing.T) {
	for name, c := range map[string]struct {
		edit     func(*hubtest.Hub, *puller)
		token    string
		is       error
		wantText []string
	}{
		"unknown repository": {func(_ *hubtest.Hub, p *puller) { p.Repo = "acme/none" }, "", ErrNotFound,
			[]string{"acme/none", "no such repository", "HF_TOKEN"}},
		"unknown with a token": {func(_ *hubtest.Hub, p *puller) { p.Repo = "acme/none" }, "hf_mine", ErrNotFound, []string{"404"}},
		"unknown revision": {func(_ *hubtest.Hub, p *puller) { p.Revision = "v9" }, "", ErrNotFound,
			[]string{"no such branch, tag or commit", "/commits/main"}},
		"private": {func(h *hubtest.Hub, _ *puller) { h.Token = "hf_secret" }, "", ErrNotFound, []string{"private", "HF_TOKEN"}},
		"gated":   {func(h *hubtest.Hub, _ *puller) { h.Gated = true }, "", ErrDenied, []string{"license at http", "/acme/tiny", "HF_TOKEN", "/settings/tokens"}},
		"gated, not accepted": {func(h *hubtest.Hub, _ *puller) { h.Gated, h.Token = true, "hf_other" }, "hf_mine", ErrDenied,
			[]string{"403", "license at http", "/acme/tiny"}},
		"wrong token": {func(h *hubtest.Hub, _ *puller) {
			h.Intercept = func(w http.ResponseWriter, _ *http.Request, _ bool) bool {
				hubtest.Refuse(w, http.StatusUnauthorized, "")
				return true
			}
		}, "hf_mine", ErrDenied, []string{"HF_TOKEN"}},
		"an address that ran out": {func(h *hubtest.Hub, _ *puller) {
			h.Intercept = func(w http.ResponseWriter, _ *http.Request, cdn bool) bool {
				if cdn {
					w.WriteHeader(http.StatusForbidden)
				}
				return cdn
			}
		}, "hf_mine", ErrUnavailable, []string{"403", "tried 6 times"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := hubtest.New(t, repo, repository())
			p := newPuller(t, h, func(cfg *Config) { cfg.Token = c.token })
			c.edit(h, p)
			_, _, err := p.pull(t)
			require.ErrorIs(t, err, c.is)
			for _, text := range c.wantText {
				require.ErrorContains(t, err, text)
			}
			require.NotContains(t, err.Error(), "hf_")
			require.NotContains(t, err.Error(), "signature")
			require.NoDirExists(t, p.Dir)
		})
	}
}

func TestRedirectURLsAreNotDisclosed(t *testing.T) {
	h := hubtest.New(t, repo, repository())
	h.Intercept = func(w http.ResponseWriter, _ *http.Request, cdn bool) bool {
		if cdn {
			panic(http.ErrAbortHandler)
		}
		return false
	}
	p := newPuller(t, h, nil)
	_, _, err := p.pull(t)
	require.ErrorIs(t, err, ErrUnavailable)
	require.NotContains(t, err.Error(), "signature")
	require.Contains(t, err.Error(), strings.TrimPrefix(h.CDN, "http://"))
}

func TestRedirectsStayOnHTTPS(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	defer secure.Close()
	c, err := New(Config{Endpoint: secure.URL, Token: "hf_secret"})
	require.NoError(t, err)
	defer c.Close()
	req := Request{Repo: repo, Dir: filepath.Join(t.TempDir(), "x")}
	_, _, err = c.Pull(t.Context(), req)
	require.ErrorIs(t, err, ErrUnsafe, "a certificate that nobody vouches for")

	defer secure.Client().CloseIdleConnections()
	c.http.Transport.(*transport).next = secure.Client().Transport
	_, _, err = c.Pull(t.Context(), req)
	require.ErrorIs(t, err, ErrUnsafe)
	require.ErrorContains(t, err, "redirect from https to http://")
}

func TestInvalidNames(t *testing.T) {
	c, err := New(Config{})
	require.NoError(t, err)
	dir := t.TempDir()
	for _, bad := range []string{"", "a/b/c", "../x", "a/..", "-x/y", "a b/c", "a/b\n", "a/b?x", "a--b/c", "/a", "a/", strings.Repeat("a", 200)} {
		_, _, err := c.Pull(t.Context(), Request{Repo: bad, Dir: dir})
		require.ErrorIs(t, err, ErrInvalid, bad)
	}
	for _, bad := range []string{"..", "a/../b", "a b", "a\x00", "-x", "?", "a..b"} {
		_, _, err := c.Pull(t.Context(), Request{Repo: repo, Revision: bad, Dir: dir})
		require.ErrorIs(t, err, ErrInvalid, bad)
	}
	_, _, err = c.Pull(t.Context(), Request{Repo: repo})
	require.ErrorIs(t, err, ErrInvalid)
	for _, bad := range []string{"huggingface.co", "ftp://x", "https://", "https://user:pass@x", "https://x?a=b", "http://[::1"} {
		_, err := New(Config{Endpoint: bad})
		require.ErrorIs(t, err, ErrInvalid, bad)
		require.NotContains(t, err.Error(), "pass@")
	}
}

func TestInvalidResponses(t *testing.T) {
	tree := func(entries ...map[string]any) string {
		text, err := json.Marshal(entries)
		require.NoError(t, err)
		return string(text)
	}
	sum := strings.Repeat("0", 40)
	for name, c := range map[string]struct {
		info, tree string
		is         error
		wantText   string
	}{
		"a web page":      {"<html>", "", ErrUnavailable, "is it a Hugging Face hub?"},
		"no commit":       {`{"id":"acme/tiny"}`, "", ErrUnavailable, "is it a Hugging Face hub?"},
		"another commit":  {`{"sha":"` + strings.Repeat("f", 40) + `"}`, "", ErrChecksum, "requested the commit"},
		"a tree of text":  {"", "no", ErrUnavailable, "the list of acme/tiny"},
		"a way out":       {"", tree(map[string]any{"type": "file", "path": "../../.ssh/id", "oid": sum}), ErrUnsafe, "../../.ssh/id"},
		"an absolute way": {"", tree(map[string]any{"type": "file", "path": "/etc/passwd", "oid": sum}), ErrUnsafe, "/etc/passwd"},
		"no checksum":     {"", tree(map[string]any{"type": "file", "path": "config.json", "oid": "x"}), ErrUnavailable, "has no checksum"},
		"negative":        {"", tree(map[string]any{"type": "file", "path": "config.json", "oid": sum, "size": -1}), ErrUnavailable, "size -1"},
		"no sha256":       {"", tree(map[string]any{"type": "file", "path": "config.json", "oid": sum, "lfs": map[string]any{"size": 1}}), ErrUnavailable, "has no checksum"},
		"twice": {"", tree(map[string]any{"type": "file", "path": "config.json", "oid": sum}, map[string]any{"type": "file", "path": "config.json", "oid": sum}),
			ErrUnavailable, "twice"},
	} {
		h := hubtest.New(t, repo, repository())
		h.Intercept = func(w http.ResponseWriter, r *http.Request, _ bool) bool {
			text := c.info
			if strings.Contains(r.URL.Path, "/tree/") {
				text = c.tree
			}
			_, _ = w.Write([]byte(text))
			return text != ""
		}
		p := newPuller(t, h, nil)
		p.Revision = hubtest.Commit
		_, _, err := p.pull(t)
		require.ErrorIs(t, err, c.is, name)
		require.ErrorContains(t, err, c.wantText, name)
		require.NoDirExists(t, p.Dir+stagingSuffix)
	}
}

func TestEndlessList(t *testing.T) {
	h := hubtest.New(t, repo, repository())
	h.Intercept = func(w http.ResponseWriter, r *http.Request, _ bool) bool {
		if !strings.Contains(r.URL.Path, "/tree/") {
			return false
		}
		w.Header().Set("Link", `<https://elsewhere.example`+r.URL.Path+`?cursor=0>; rel="next"`)
		_, _ = w.Write([]byte("[]"))
		return true
	}
	p := newPuller(t, h, nil)
	_, _, err := p.pull(t)
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorContains(t, err, "more than 100 pages")
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "12": 12 * time.Second, "-4": 0, "soon": 0, "99999999999": 0,
		"Fri, 02 Jan 2026 03:04:35 GMT": 30 * time.Second, "Fri, 02 Jan 2026 03:04:00 GMT": 0,
	} {
		require.Equal(t, want, retryAfter(http.Header{"Retry-After": {text}}, now), text)
	}
}

func FuzzParseTree(f *testing.F) {
	f.Add([]byte(`[{"type":"file","path":"config.json","oid":"0123456789abcdef0123456789abcdef01234567","size":3}]`))
	f.Add([]byte(`[{"type":"file","path":"a/../../b","oid":"0123456789abcdef0123456789abcdef01234567","size":3}]`))
	f.Add([]byte(`[{"type":"directory","path":"x"},{"type":"file","path":"m.safetensors","lfs":{"oid":"x","size":1}}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		files := map[string]File{}
		_ = parseTree(data, files)
		for name, file := range files {
			if err := file.check(); err != nil || name != file.Name || filepath.Base(name) != name || filepath.Join("/x", name) != "/x/"+name {
				t.Fatalf("%q: %v", name, err)
			}
		}
	})
}

func FuzzParseIndex(f *testing.F) {
	f.Add([]byte(`{"weight_map":{"a":"model-1.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"../x.safetensors"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		shards, err := parseIndex(data)
		for _, name := range shards {
			if err != nil || filepath.Join("/x", name) != "/x/"+name || strings.Contains(name, "/") {
				t.Fatalf("%q: %v", name, err)
			}
		}
	})
}

func FuzzNextPage(f *testing.F) {
	f.Add(`<https://x/y?cursor=1>; rel="next"`)
	f.Add(`<a>; rel=prev, <b>; rel="next"`)
	f.Fuzz(func(t *testing.T, line string) {
		if next := nextPage(http.Header{"Link": {line}}); next != "" && !strings.Contains(line, "<"+next+">") {
			t.Fatalf("%q out of %q", next, line)
		}
	})
}
