// Package console serves the console, the web page of the service: one HTML
// document, ES modules and a style sheet, embedded in the binary. It also keeps
// the sessions of people who signed in with a token.
//
// The page is static. It calls the same API as every other client, so that the
// authorization of the API is the only one. Texts of callers become text nodes,
// never HTML, and the Content-Security-Policy would block a script that got in.
package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"time"

	"github.com/go-chi/chi/v5"

	"assay/api/internal/failure"
)

//go:embed console.html assets
var embedded embed.FS

// policy allows what the page consists of: its own scripts, style sheets and
// requests, and images of the page itself.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"form-action 'none'; frame-ancestors 'none'; base-uri 'none'"

// mediaTypes are the types of the files by extension. Other files are not served.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
}

// Files are the files of the console.
type Files struct {
	byPath map[string]file // by the path in this directory, such as assets/api.js
}

type file struct {
	content   []byte
	mediaType string
	etag      string // quoted, of the content
}

// Load reads the embedded files.
func Load() (*Files, error) {
	files := &Files{map[string]file{}}
	err := fs.WalkDir(embedded, ".", func(name string, entry fs.DirEntry, err error) error {
		mediaType, served := mediaTypes[path.Ext(name)]
		if err != nil || entry.IsDir() || !served {
			return err
		}
		content, err := embedded.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		files.byPath[name] = file{content, mediaType, `"` + hex.EncodeToString(sum[:16]) + `"`}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	return files, nil
}

// Page serves the HTML document.
func (f *Files) Page(w http.ResponseWriter, r *http.Request) error {
	return f.serve(w, r, "console.html")
}

// Asset serves a script or a style sheet, named by the parameter {file} of the
// route.
func (f *Files) Asset(w http.ResponseWriter, r *http.Request) error {
	return f.serve(w, r, "assets/"+chi.URLParam(r, "file"))
}

// serve sends a file, or 304 if the browser has it. The names have no hash of the
// content, so that modules can import each other; the browser validates each file
// by its ETag instead.
func (f *Files) serve(w http.ResponseWriter, r *http.Request, name string) error {
	found, ok := f.byPath[name]
	if !ok {
		return failure.NotFound("the console has no file %.100q", path.Base(name))
	}
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cache-Control", "no-cache")
	header.Set("Content-Type", found.mediaType)
	header.Set("ETag", found.etag)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(found.content))
	return nil
}
