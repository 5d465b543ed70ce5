// Package hubtest is a fake Hugging Face hub for tests. It behaves like the hub as
// far as clients can observe: large files are redirected to a signed URL of a
// second server, which supports ranges and validators, errors have X-Error-Code,
// and trees are paginated.
package hubtest

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Commit is the commit of main in a new hub.
const Commit = "0123456789abcdef0123456789abcdef01234567"

// Hub serves one repository. Its fields may be changed between requests; with Update, if
// another process sends the next one.
type Hub struct {
	// URL is the endpoint; CDN is where large files are redirected to.
	URL, CDN string
	Repo     string
	Head     string // commit of main
	Files    map[string][]byte
	License  string
	Token    string // required in Authorization; "" requires none
	Gated    bool   // files require the token
	Bot      int    // number of the conversion bot's pull request; 0 for none
	PageSize int    // entries in a page of the tree; 0 for all
	// Intercept is called first for each request; if it writes the response, it
	// returns true. cdn reports whether the request is to the second server.
	Intercept func(w http.ResponseWriter, r *http.Request, cdn bool) bool

	mu   sync.Mutex
	seen []Seen
}

// Seen is a received request.
type Seen struct {
	CDN    bool
	Path   string
	Header http.Header
}

// New starts a hub that is closed at the end of the test.
func New(t testing.TB, repo string, files map[string][]byte) *Hub {
	t.Helper()
	h := &Hub{Repo: repo, Head: Commit, Files: files, License: "mit"}
	serve := func(cdn bool, handler func(http.ResponseWriter, *http.Request)) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.mu.Lock()
			h.seen = append(h.seen, Seen{CDN: cdn, Path: r.URL.Path, Header: r.Header.Clone()})
			h.mu.Unlock()
			if h.Intercept != nil && h.Intercept(w, r, cdn) {
				return
			}
			handler(w, r)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	url, cdn := serve(false, h.hub), serve(true, h.cdn)
	h.Update(func() { h.URL, h.CDN = url, cdn })
	return h
}

// Update changes fields before the next request. The race detector does not see that a
// request of another process comes later.
func (h *Hub) Update(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

// Seen returns the requests since the last call.
func (h *Hub) Seen() []Seen {
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := h.seen
	h.seen = nil
	return seen
}

// Large reports whether the hub stores a file in large file storage.
func Large(name string) bool {
	return slices.Contains([]string{".safetensors", ".bin", ".model", ".h5"}, path.Ext(name))
}

// Refuse writes an error response of the hub.
func Refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("X-Error-Code", code)
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":%q}`, code)
}

func (h *Hub) hub(w http.ResponseWriter, r *http.Request) {
	authorized := h.Token != "" && r.Header.Get("Authorization") == "Bearer "+h.Token
	rest, api := strings.CutPrefix(r.URL.EscapedPath(), "/api/models/")
	rest, ours := strings.CutPrefix(strings.TrimPrefix(rest, "/"), h.Repo+"/")
	if !ours || h.Token != "" && !h.Gated && !authorized {
		status := http.StatusUnauthorized // as for all clients without a token
		if r.Header.Get("Authorization") != "" {
			status = http.StatusNotFound
		}
		Refuse(w, status, "RepoNotFound")
		return
	}
	verb, rest, _ := strings.Cut(rest, "/")
	switch {
	case api && verb == "revision":
		if revision := strings.ReplaceAll(rest, "%2F", "/"); !slices.Contains([]string{"main", h.Head, "refs/pr/" + strconv.Itoa(h.Bot)}, revision) {
			Refuse(w, http.StatusNotFound, "RevisionNotFound")
			return
		}
		writeJSON(w, map[string]any{"id": h.Repo, "sha": h.Head, "gated": h.Gated, "cardData": map[string]any{"license": h.License}})
	case api && verb == "tree" && rest == h.Head:
		h.tree(w, r)
	case api && verb == "discussions":
		var list []map[string]any
		if h.Bot > 0 {
			list = append(list, map[string]any{"num": h.Bot, "title": "Adding `safetensors` variant of this model",
				"status": "open", "isPullRequest": true, "author": map[string]any{"name": "SFconvertbot"}})
		}
		writeJSON(w, map[string]any{"count": len(list), "start": 0, "discussions": list})
	case !api && verb == "resolve":
		name, ok := strings.CutPrefix(rest, h.Head+"/")
		content, found := h.Files[name]
		switch {
		case !ok || !found:
			Refuse(w, http.StatusNotFound, "EntryNotFound")
		case h.Gated && r.Header.Get("Authorization") == "":
			Refuse(w, http.StatusUnauthorized, "GatedRepo")
		case h.Gated && !authorized:
			Refuse(w, http.StatusForbidden, "GatedRepo")
		case Large(name):
			w.Header().Set("X-Linked-Etag", `"`+SHA256(content)+`"`)
			w.Header().Set("X-Linked-Size", strconv.Itoa(len(content)))
			w.Header().Set("X-Repo-Commit", h.Head)
			http.Redirect(w, r, h.CDN+"/"+SHA256(content)+"?signature=secret", http.StatusFound)
		default:
			w.Header().Set("X-Repo-Commit", h.Head)
			serveContent(w, r, GitSHA1(content), content)
		}
	default:
		Refuse(w, http.StatusNotFound, "")
	}
}

func (h *Hub) tree(w http.ResponseWriter, r *http.Request) {
	names := slices.Sorted(maps.Keys(h.Files))
	from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	page := names[from:]
	if h.PageSize > 0 && len(page) > h.PageSize {
		page = page[:h.PageSize]
		next := fmt.Sprintf("%s%s?cursor=%d", h.URL, r.URL.Path, from+h.PageSize)
		w.Header().Set("Link", "<"+next+`>; rel="next"`)
	}
	entries := []any{}
	if from == 0 {
		entries = append(entries, map[string]any{"type": "directory", "oid": GitSHA1(nil), "size": 0, "path": "onnx"})
	}
	for _, name := range page {
		content := h.Files[name]
		e := map[string]any{"type": "file", "oid": GitSHA1(content), "size": len(content), "path": name}
		if Large(name) {
			e["oid"] = GitSHA1([]byte("pointer to " + SHA256(content)))
			e["lfs"] = map[string]any{"oid": SHA256(content), "size": len(content), "pointerSize": 134}
			e["xetHash"] = SHA256([]byte(name))
		}
		entries = append(entries, e)
	}
	writeJSON(w, entries)
}

func (h *Hub) cdn(w http.ResponseWriter, r *http.Request) {
	for _, content := range h.Files {
		if sum := SHA256(content); r.URL.Path == "/"+sum && r.URL.Query().Get("signature") == "secret" {
			serveContent(w, r, sum, content)
			return
		}
	}
	http.Error(w, "no", http.StatusForbidden)
}

// serveContent serves ranges and validators as RFC 9110 has them.
func serveContent(w http.ResponseWriter, r *http.Request, etag string, content []byte) {
	w.Header().Set("ETag", `"`+etag+`"`)
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(value)
}

// SHA256 is the checksum of a file in large file storage.
func SHA256(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// GitSHA1 is git's name of a blob.
func GitSHA1(content []byte) string {
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", len(content))
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}
