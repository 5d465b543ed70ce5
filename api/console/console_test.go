package console

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// maxBytes is the size that all files may have together.
const maxBytes = 200_000

func TestFilesAreSmall(t *testing.T) {
	files, err := Load()
	require.NoError(t, err)
	total := 0
	for _, f := range files.byPath {
		total += len(f.content)
	}
	require.Less(t, total, maxBytes)
	require.Greater(t, total, 10_000)
}

// The modules import only files that are served, so that the console works offline.
func TestModulesImportServedFiles(t *testing.T) {
	files, err := Load()
	require.NoError(t, err)
	imports := regexp.MustCompile(`(?:from |import\(|import )'([^']+)'`)
	found := 0
	for name, f := range files.byPath {
		if path.Ext(name) != ".js" || path.Dir(name) != "assets" {
			continue
		}
		for _, match := range imports.FindAllStringSubmatch(string(f.content), -1) {
			require.Contains(t, files.byPath, path.Join("assets", match[1]), "imported by %s", name)
			found++
		}
	}
	require.Greater(t, found, 10)
	for _, match := range regexp.MustCompile(`(?:src|href)="console/([^"]+)"`).FindAllStringSubmatch(string(files.byPath["console.html"].content), -1) {
		require.Contains(t, files.byPath, match[1])
	}
}

// Nothing in the page needs what the policy forbids, and no text becomes HTML.
func TestPageNeedsNoUnsafePolicy(t *testing.T) {
	files, err := Load()
	require.NoError(t, err)
	for name, f := range files.byPath {
		for _, forbidden := range []string{" style=", " onclick=", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "localStorage", "sessionStorage"} {
			require.NotContains(t, string(f.content), forbidden, name)
		}
		require.NotRegexp(t, `<script>|<style>`, string(f.content), name)
	}
}

func TestPage(t *testing.T) {
	files, err := Load()
	require.NoError(t, err)
	get := func(headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		require.NoError(t, files.Page(w, r))
		return w
	}
	w := get()
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	require.Equal(t, "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; form-action 'none'; frame-ancestors 'none'; base-uri 'none'",
		w.Header().Get("Content-Security-Policy"))
	require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	require.Equal(t, "no-referrer", w.Header().Get("Referrer-Policy"))
	again := get("If-None-Match", w.Header().Get("ETag"))
	require.Equal(t, http.StatusNotModified, again.Code)
	require.Empty(t, again.Body)
	require.Equal(t, http.StatusOK, get("If-None-Match", `"another"`).Code)
}

func TestSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sessions := NewSessions()
		token := sha256.Sum256([]byte("a"))
		id, opened := sessions.Open(token)
		require.Len(t, id, 43, "256 bits")
		require.Len(t, opened.CSRF, 43)
		found, ok := sessions.Find(id)
		require.True(t, ok)
		require.Equal(t, opened, found)
		for _, other := range []string{"", id[1:], id + "x", opened.CSRF} {
			_, ok = sessions.Find(other)
			require.False(t, ok)
		}

		<-time.After(Lifetime - time.Second)
		_, ok = sessions.Find(id)
		require.True(t, ok)
		<-time.After(time.Second)
		_, ok = sessions.Find(id)
		require.False(t, ok, "expired")
		id, _ = sessions.Open(token)
		require.Len(t, sessions.byHash, 1, "the expired one is removed")
		sessions.End(id)
		_, ok = sessions.Find(id)
		require.False(t, ok)
	})
}

// One token cannot exhaust the memory, or end the sessions of another.
func TestSessionsOfATokenAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sessions := NewSessions()
		other, _ := sessions.Open(sha256.Sum256([]byte("other")))
		var ids []string
		for i := range 3 * MaxPerToken {
			id, _ := sessions.Open(sha256.Sum256([]byte("a")))
			ids = append(ids, id)
			<-time.After(time.Duration(i+1) * time.Millisecond)
		}
		require.Len(t, sessions.byHash, MaxPerToken+1)
		_, ok := sessions.Find(other)
		require.True(t, ok)
		for i, id := range ids {
			_, ok := sessions.Find(id)
			require.Equal(t, i >= 2*MaxPerToken, ok, fmt.Sprint("session ", i))
		}
	})
}
