package hub

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/hub/hubtest"
)

func TestDroppedConnectionsAreResumed(t *testing.T) {
	h := hubtest.New(t, repo, repository())
	content := h.Files["model.safetensors"]
	drops := 0
	h.Intercept = func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
		if !cdn || r.URL.Path != "/"+hubtest.SHA256(content) || drops == 20 {
			return false
		}
		drops++
		from := 0
		if r.Header.Get("Range") != "" {
			from, _ = strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-"))
			w.Header().Set("Content-Range", "bytes "+strconv.Itoa(from)+"-"+strconv.Itoa(len(content)-1)+"/"+strconv.Itoa(len(content)))
			w.Header().Set("Content-Length", strconv.Itoa(len(content)-from))
			w.WriteHeader(http.StatusPartialContent)
		}
		cut(w, content[from:], `"`+hubtest.SHA256(content)+`"`, 10_000)
		return true
	}
	p := newPuller(t, h, nil)
	_, _, err := p.pull(t)
	require.NoError(t, err, "each attempt got further, so it never gives up")
	p.complete(t, h.Files, wanted)
	require.Len(t, p.waits, 20)
	var last hubtest.Seen
	for _, s := range downloads(h) {
		if s.CDN && s.Path == "/"+hubtest.SHA256(content) {
			last = s
		}
	}
	require.Equal(t, []string{"bytes=200000-"}, last.Header["Range"])
	require.Equal(t, []string{`"` + hubtest.SHA256(content) + `"`}, last.Header["If-Range"])
}

// kill pulls until n bytes of the weights are received, and then stops like a killed
// process, without cleanup.
func kill(t *testing.T, p *puller, n int64) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	killed := errors.New("killed")
	req := p.Request
	req.Report = func(now Progress) {
		if now.File == "model.safetensors" && now.Done > n {
			cancel(killed)
		}
	}
	_, _, err := p.Pull(ctx, req)
	require.ErrorIs(t, err, killed)
}

func TestAKilledPullIsResumed(t *testing.T) {
	h := hubtest.New(t, repo, repository())
	p := newPuller(t, h, nil)
	kill(t, p, 300_000)
	require.NoDirExists(t, p.Dir, "a directory that is not complete must not be there")
	part := filepath.Join(p.Dir+stagingSuffix, "model.safetensors.part")
	info, err := os.Stat(part)
	require.NoError(t, err)
	require.Positive(t, info.Size())
	require.Less(t, info.Size(), int64(1<<20))
	h.Seen()

	_, _, err = p.pull(t)
	require.NoError(t, err)
	p.complete(t, h.Files, wanted)
	got := downloads(h)
	require.Len(t, got, 2, "the other files are there")
	for _, s := range got {
		require.Equal(t, []string{"bytes=" + strconv.FormatInt(info.Size(), 10) + "-"}, s.Header["Range"])
	}
}

// The next version of a model, which has files of the same sizes.
func TestAKilledUpdateIsResumed(t *testing.T) {
	h := hubtest.New(t, repo, repository())
	p := newPuller(t, h, nil)
	_, _, err := p.pull(t)
	require.NoError(t, err)
	h.Head = strings.Repeat("b", 40)
	next := slices.Clone(h.Files["model.safetensors"])
	next[len(next)-1]++
	h.Files["model.safetensors"] = next

	kill(t, p, 300_000)
	h.Seen()
	_, _, err = p.pull(t)
	require.NoError(t, err)
	p.complete(t, h.Files, wanted)
	require.NotEmpty(t, downloads(h)[0].Header["Range"], "the old file must not replace what was downloaded")
}

func TestAPartOfAnotherFileIsNotResumed(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, part string){
		"its validator differs": func(t *testing.T, part string) {
			require.NoError(t, os.WriteFile(part+".etag", []byte(`"other"`), 0o600))
		},
		"nothing but its bytes":  func(t *testing.T, part string) { require.NoError(t, os.Remove(part+".etag")) },
		"it is longer than that": func(t *testing.T, part string) { require.NoError(t, os.Truncate(part, 5<<20)) },
	} {
		h := hubtest.New(t, repo, repository())
		p := newPuller(t, h, nil)
		kill(t, p, 300_000)
		part := filepath.Join(p.Dir+stagingSuffix, "model.safetensors.part")
		file, err := os.OpenFile(part, os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = file.WriteAt([]byte("garbage"), 100)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		spoil(t, part)
		_, _, err = p.pull(t)
		require.NoError(t, err, name)
		p.complete(t, h.Files, wanted)
	}
}

func TestAHubWithoutRanges(t *testing.T) {
	h := hubtest.New(t, repo, repository())
	content := h.Files["model.safetensors"]
	tries := 0
	h.Intercept = func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
		if cdn {
			r.Header.Del("Range")
		}
		if !cdn || r.URL.Path != "/"+hubtest.SHA256(content) {
			return false
		}
		if tries++; tries < 3 {
			cut(w, content, `W/"weak"`, 200_000)
		}
		return false
	}
	p := newPuller(t, h, nil)
	_, _, err := p.pull(t)
	require.NoError(t, err)
	p.complete(t, h.Files, wanted)

	tries = -100 // never complete and never any progress: it must give up
	q := newPuller(t, h, nil)
	_, _, err = q.pull(t)
	require.ErrorIs(t, err, ErrUnavailable)
	require.Len(t, q.waits, 5)
}

func TestWrongRanges(t *testing.T) {
	for name, status := range map[string]int{"elsewhere": http.StatusPartialContent, "refused": http.StatusRequestedRangeNotSatisfiable} {
		h := hubtest.New(t, repo, repository())
		p := newPuller(t, h, nil)
		kill(t, p, 300_000)
		h.Intercept = func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
			if !cdn || r.Header.Get("Range") == "" {
				return false
			}
			if status == http.StatusPartialContent {
				w.Header().Set("Content-Range", "bytes 5-1048575/1048576")
			}
			w.WriteHeader(status)
			return true
		}
		_, _, err := p.pull(t)
		require.NoError(t, err, name)
		p.complete(t, h.Files, wanted)
	}
}

func TestWrongBytes(t *testing.T) {
	for name, longer := range map[string]int{"model.safetensors": 0, "config.json": 0, "spm.model": 1, "tokenizer.json": 1} {
		h := hubtest.New(t, repo, repository())
		content := h.Files[name]
		wrong := append(slices.Clone(content), make([]byte, longer)...)
		wrong[len(wrong)/2] ^= 1
		times := 0
		h.Intercept = func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
			here := !cdn && strings.HasSuffix(r.URL.Path, "/resolve/"+h.Head+"/"+name) && !hubtest.Large(name)
			if times == 0 || !here && !(cdn && r.URL.Path == "/"+hubtest.SHA256(content)) {
				return false
			}
			times--
			_, _ = w.Write(wrong)
			return true
		}
		times = 1
		p := newPuller(t, h, nil)
		_, _, err := p.pull(t)
		require.NoError(t, err, "once may be chance")
		p.complete(t, h.Files, wanted)

		times = -1
		q := newPuller(t, h, nil)
		_, _, err = q.pull(t)
		require.ErrorIs(t, err, ErrChecksum)
		require.ErrorContains(t, err, name)
		require.NoDirExists(t, q.Dir)
		require.NoFileExists(t, filepath.Join(q.Dir+stagingSuffix, name))
	}
}

func TestBusyAndBrokenHubs(t *testing.T) {
	h := hubtest.New(t, repo, repository())
	var mu sync.Mutex
	var responses []func(http.ResponseWriter)
	h.Intercept = func(w http.ResponseWriter, r *http.Request, _ bool) bool {
		mu.Lock()
		if len(responses) == 0 {
			mu.Unlock()
			return false
		}
		next := responses[0]
		responses = responses[1:]
		mu.Unlock()
		next(w)
		return true
	}
	answer := func(with ...func(http.ResponseWriter)) {
		mu.Lock()
		defer mu.Unlock()
		responses = with
	}
	status := func(code int, retryAfter string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			if retryAfter != "" {
				w.Header().Set("Retry-After", retryAfter)
			}
			w.WriteHeader(code)
		}
	}
	abort := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }

	answer(status(429, "17"), status(503, ""), abort, status(500, "-3"), status(408, "x"))
	p := newPuller(t, h, nil)
	_, _, err := p.pull(t)
	require.NoError(t, err)
	require.Len(t, p.waits, 4, "net/http itself asks again at once when a connection that was kept is closed")
	require.Equal(t, 17*time.Second, p.waits[0])
	for i, most := range []time.Duration{2, 4, 8} {
		require.Greater(t, p.waits[i+1], most*time.Second*3/4-1)
		require.LessOrEqual(t, p.waits[i+1], most*time.Second)
	}

	answer(slices.Repeat([]func(http.ResponseWriter){status(502, "")}, 10)...)
	p = newPuller(t, h, nil)
	_, _, err = p.pull(t)
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorContains(t, err, "502 Bad Gateway (tried 6 times)")
	require.Len(t, p.waits, 5)

	answer(status(429, "3600"))
	p = newPuller(t, h, nil)
	_, _, err = p.pull(t)
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorContains(t, err, "1h0m0s")
	require.Empty(t, p.waits)

	answer(status(418, ""))
	_, _, err = p.pull(t)
	require.ErrorIs(t, err, ErrUnavailable)
}

func TestAStalledHub(t *testing.T) {
	h := hubtest.New(t, repo, repository())
	content := h.Files["model.safetensors"]
	silent := 2
	h.Intercept = func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
		if !cdn || r.URL.Path != "/"+hubtest.SHA256(content) || silent == 0 {
			return false
		}
		silent--
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write(content[:50_000])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // until the client disconnects
		return true
	}
	p := newPuller(t, h, func(c *Config) { c.Stall = 200 * time.Millisecond })
	_, _, err := p.pull(t)
	require.NoError(t, err)
	p.complete(t, h.Files, wanted)

	silent = 100
	p = newPuller(t, h, func(c *Config) { c.Stall, c.Attempts = 50*time.Millisecond, 2 })
	_, _, err = p.pull(t)
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorContains(t, err, "timeout without receiving a byte (50ms)")
}

func TestAFullDisk(t *testing.T) {
	h := hubtest.New(t, repo, repository())
	p := newPuller(t, h, nil)
	room, write := 400_000, p.write
	p.write = func(file *os.File, b []byte) (int, error) {
		n, err := write(file, b[:min(len(b), room)])
		room -= n
		if n < len(b) && err == nil {
			err = &fs.PathError{Op: "write", Path: file.Name(), Err: syscall.ENOSPC}
		}
		return n, err
	}
	_, _, err := p.pull(t)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, "no space")
	require.ErrorContains(t, err, p.Dir)
	require.NoDirExists(t, p.Dir)
	require.Empty(t, p.waits, "waiting does not make room")

	room = 1 << 30
	h.Seen()
	_, _, err = p.pull(t)
	require.NoError(t, err)
	p.complete(t, h.Files, wanted)
	require.NotEmpty(t, downloads(h)[0].Header["Range"], "what fitted is kept")
}
