package hub

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"assay/rewardmodel/hub/hubtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const repo = "acme/tiny"

// weights returns n random bytes.
func weights(seed uint64, n int) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(data)
	return data
}

// repository has every kind of file that a repository may have, including ones that are not pulled.
func repository() map[string][]byte {
	return map[string][]byte{
		"config.json":             []byte(`{"model_type":"roberta"}`),
		"tokenizer.json":          []byte(`{"version":"1.0"}`),
		"merges.txt":              []byte("#version: 0.2\n"),
		"README.md":               []byte("---\nlicense: mit\n---\n"),
		"LICENSE":                 []byte("MIT"),
		"spm.model":               weights(1, 2000),
		"model.safetensors":       weights(2, 1<<20),
		"pytorch_model.bin":       weights(3, 3000),
		"tf_model.h5":             weights(4, 3000),
		"modeling_tiny.py":        []byte("import os"),
		"onnx/model.onnx":         []byte("onnx"),
		"1_Pooling/config.json":   []byte("{}"),
		"model.fp16.safetensors":  weights(5, 100),
		"sentence_bert_conf.json": []byte("{}"),
		".gitattributes":          []byte("*.bin"),
	}
}

var wanted = []string{"LICENSE", "README.md", "config.json", "merges.txt", "spm.model", "tokenizer.json", "model.safetensors"}

// puller is a client that does not wait between retries, and its request.
type puller struct {
	*Client
	Request
	waits []time.Duration
}

func newPuller(t *testing.T, h *hubtest.Hub, edit func(*Config)) *puller {
	t.Helper()
	cfg := Config{Endpoint: h.URL}
	if edit != nil {
		edit(&cfg)
	}
	c, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	p := &puller{Client: c, Request: Request{Repo: h.Repo, Dir: filepath.Join(t.TempDir(), "models", "tiny")}}
	c.sleep = func(ctx context.Context, d time.Duration) error {
		p.waits = append(p.waits, d)
		return ctx.Err()
	}
	return p
}

func (p *puller) pull(t *testing.T) (Receipt, bool, error) {
	t.Helper()
	return p.Pull(t.Context(), p.Request)
}

// complete checks that the directory has exactly the files.
func (p *puller) complete(t *testing.T, files map[string][]byte, names []string) {
	t.Helper()
	entries, err := os.ReadDir(p.Dir)
	require.NoError(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	require.ElementsMatch(t, append([]string{ReceiptFile}, names...), got)
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(p.Dir, name))
		require.NoError(t, err)
		require.True(t, bytes.Equal(files[name], content), name)
	}
	require.NoDirExists(t, p.Dir+stagingSuffix)
}

// cut sends the first n bytes of a response, then closes the connection.
func cut(w http.ResponseWriter, content []byte, etag string, n int) {
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.Header().Set("ETag", etag)
	_, _ = w.Write(content[:n])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// downloads returns the requests for files.
func downloads(h *hubtest.Hub) (paths []hubtest.Seen) {
	for _, s := range h.Seen() {
		if ok, _ := filepath.Match("/acme/tiny/resolve/*/*", s.Path); ok || s.CDN {
			paths = append(paths, s)
		}
	}
	return paths
}
