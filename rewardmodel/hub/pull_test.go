package hub

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/hub/hubtest"
)

func TestPullFetchesOnlyDataAtTheCommit(t *testing.T) {
	h := hubtest.New(t, repo, repository())
	h.Token, h.PageSize = "hf_secret", 4
	p := newPuller(t, h, func(c *Config) { c.Token = "hf_secret" })
	var last Progress
	p.Report = func(now Progress) {
		require.LessOrEqual(t, now.Done, now.Total)
		last = now
	}
	receipt, changed, err := p.pull(t)
	require.NoError(t, err)
	require.True(t, changed)
	p.complete(t, h.Files, wanted)
	require.Equal(t, last.Total, last.Done)

	require.Equal(t, hubtest.Commit, receipt.Commit)
	require.Equal(t, "main", receipt.Revision)
	require.Equal(t, "mit", receipt.License)
	stored, err := ReadReceipt(p.Dir)
	require.NoError(t, err)
	require.Equal(t, receipt, stored)
	for _, f := range receipt.Files {
		if hubtest.Large(f.Name) {
			require.Equal(t, hubtest.SHA256(h.Files[f.Name]), f.SHA256)
		} else {
			require.Equal(t, hubtest.GitSHA1(h.Files[f.Name]), f.GitSHA1)
		}
	}
	for _, s := range h.Seen() {
		want := []string{"Bearer hf_secret"}
		if s.CDN {
			want = nil
		}
		require.Equal(t, want, s.Header["Authorization"], s.Path)
		require.Empty(t, s.Header["Referer"], s.Path)
	}
}

func TestPullAgainOnlyVerifies(t *testing.T) {
	h := hubtest.New(t, repo, repository())
	p := newPuller(t, h, nil)
	first, _, err := p.pull(t)
	require.NoError(t, err)
	h.Seen()

	again, changed, err := p.pull(t)
	require.NoError(t, err)
	require.False(t, changed)
	require.Equal(t, first, again)
	require.Empty(t, downloads(h))

	p.Revision = hubtest.Commit
	_, changed, err = p.pull(t)
	require.NoError(t, err)
	require.False(t, changed)
	require.Empty(t, h.Seen(), "a commit that is there needs no hub")
}

func TestPullRepairsMissingAndDamagedFiles(t *testing.T) {
	h := hubtest.New(t, repo, repository())
	p := newPuller(t, h, nil)
	_, _, err := p.pull(t)
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(p.Dir, "config.json")))
	damaged := slices.Clone(h.Files["model.safetensors"])
	damaged[1000]++
	require.NoError(t, os.WriteFile(filepath.Join(p.Dir, "model.safetensors"), damaged, 0o600))
	h.Seen()

	_, changed, err := p.pull(t)
	require.NoError(t, err)
	require.True(t, changed)
	p.complete(t, h.Files, wanted)
	require.Len(t, downloads(h), 3, "config.json, and the weights with their redirect")
}

func TestPullOfANewCommitFetchesChangedFiles(t *testing.T) {
	h := hubtest.New(t, repo, repository())
	p := newPuller(t, h, nil)
	_, _, err := p.pull(t)
	require.NoError(t, err)

	h.Head = strings.Repeat("ab", 20)
	h.Files["config.json"] = []byte(`{"model_type":"bert"}`)
	delete(h.Files, "merges.txt")
	h.Seen()
	receipt, changed, err := p.pull(t)
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, h.Head, receipt.Commit)
	p.complete(t, h.Files, slices.DeleteFunc(slices.Clone(wanted), func(n string) bool { return n == "merges.txt" }))
	require.Len(t, downloads(h), 1)

	note := filepath.Join(p.Dir, "notes.txt")
	require.NoError(t, os.WriteFile(note, nil, 0o600))
	_, changed, err = p.pull(t)
	require.NoError(t, err, "nothing is replaced")
	require.False(t, changed)
	h.Head = strings.Repeat("cd", 20)
	h.Files["config.json"] = []byte(`{"model_type":"roberta"}`)
	_, _, err = p.pull(t)
	require.ErrorIs(t, err, ErrOccupied)
	require.ErrorContains(t, err, "notes.txt")
	require.FileExists(t, note)
}

func TestPullOfShards(t *testing.T) {
	files := repository()
	delete(files, "model.safetensors")
	files["model-00001-of-00002.safetensors"] = weights(8, 70_000)
	files["model-00002-of-00002.safetensors"] = weights(9, 50_000)
	files["model-00003-of-00002.safetensors"] = weights(10, 50)
	files[indexFile] = []byte(`{"metadata":{},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors","c":"model-00001-of-00002.safetensors"}}`)
	h := hubtest.New(t, repo, files)
	p := newPuller(t, h, nil)
	_, _, err := p.pull(t)
	require.NoError(t, err)
	p.complete(t, files, append(slices.Clone(wanted[:6]), indexFile, "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"))

	h.Seen()
	_, changed, err := p.pull(t)
	require.NoError(t, err)
	require.False(t, changed)
	require.Empty(t, downloads(h))

	for name, index := range map[string]string{
		"which the repository does not contain": `{"weight_map":{"a":"model-00009-of-00009.safetensors"}}`,
		"outside the directory":                 `{"weight_map":{"a":"../../x.safetensors"}}`,
		"not a safetensors file at the top":     `{"weight_map":{"a":"pytorch_model.bin"}}`,
		"names no shard":                        `{"weight_map":{}}`,
		indexFile:                               `{"weight_map":`,
	} {
		files[indexFile] = []byte(index)
		p := newPuller(t, h, nil)
		_, _, err := p.pull(t)
		require.ErrorContains(t, err, name)
		require.NoDirExists(t, p.Dir)
	}
}

func TestPullOfIncludedFiles(t *testing.T) {
	h := hubtest.New(t, repo, repository())
	p := newPuller(t, h, nil)
	p.Include = []string{"sentence_*", "*"}
	_, _, err := p.pull(t)
	require.NoError(t, err)
	p.complete(t, h.Files, append(slices.Clone(wanted), "sentence_bert_conf.json", "model.fp16.safetensors"))

	for _, bad := range []string{"*.bin", "x.py", "[", "a/b", ""} {
		p.Include = []string{bad}
		_, _, err := p.pull(t)
		require.ErrorIs(t, err, ErrInvalid, bad)
	}
}

func TestPullUsesTheHuggingFaceCache(t *testing.T) {
	h := hubtest.New(t, repo, repository())
	cache := t.TempDir()
	blobs := filepath.Join(cache, "models--acme--tiny", "blobs")
	require.NoError(t, os.MkdirAll(blobs, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(blobs, hubtest.SHA256(h.Files["model.safetensors"])), h.Files["model.safetensors"], 0o600))
	wrong := slices.Clone(h.Files["spm.model"])
	wrong[0]++
	require.NoError(t, os.WriteFile(filepath.Join(blobs, hubtest.SHA256(h.Files["spm.model"])), wrong, 0o600))

	p := newPuller(t, h, func(c *Config) { c.Cache = cache })
	_, _, err := p.pull(t)
	require.NoError(t, err)
	p.complete(t, h.Files, wanted)
	for _, s := range downloads(h) {
		require.NotContains(t, s.Path, "model.safetensors")
	}
}

func TestPullFollowsARenamedRepository(t *testing.T) {
	h := hubtest.New(t, repo, repository())
	h.Intercept = func(w http.ResponseWriter, r *http.Request, _ bool) bool {
		if rest, ok := strings.CutPrefix(r.URL.Path, "/api/models/tiny/"); ok {
			http.Redirect(w, r, "/api/models/"+repo+"/"+rest, http.StatusTemporaryRedirect)
			return true
		}
		return false
	}
	p := newPuller(t, h, nil)
	p.Repo = "tiny"
	receipt, _, err := p.pull(t)
	require.NoError(t, err)
	require.Equal(t, repo, receipt.Repo)
	p.complete(t, h.Files, wanted)
}

func TestOccupiedDirectories(t *testing.T) {
	h := hubtest.New(t, repo, repository())
	p := newPuller(t, h, nil)
	require.NoError(t, os.MkdirAll(p.Dir, 0o755))
	own := filepath.Join(p.Dir, "config.json")
	require.NoError(t, os.WriteFile(own, []byte("mine"), 0o600))
	_, _, err := p.pull(t)
	require.ErrorIs(t, err, ErrOccupied)
	require.FileExists(t, own)
	require.NoError(t, os.Remove(own))
	_, _, err = p.pull(t)
	require.NoError(t, err, "an empty directory is as good as none")

	other := hubtest.New(t, "acme/other", repository())
	q := newPuller(t, other, nil)
	q.Dir = p.Dir
	_, _, err = q.pull(t)
	require.ErrorIs(t, err, ErrOccupied)
	require.ErrorContains(t, err, "holds acme/tiny")

	require.NoError(t, os.WriteFile(filepath.Join(p.Dir, ReceiptFile), []byte(`{"files":[{"name":"../x"}]}`), 0o600))
	_, _, err = p.pull(t)
	require.ErrorIs(t, err, ErrOccupied)
	require.ErrorContains(t, err, ReceiptFile)
}

func TestConcurrentPullsAreRejected(t *testing.T) {
	h := hubtest.New(t, repo, repository())
	p := newPuller(t, h, nil)
	require.NoError(t, os.MkdirAll(filepath.Dir(p.Dir), 0o755))
	_, release, err := openStaging(p.Dir)
	require.NoError(t, err)
	_, _, err = p.pull(t)
	require.ErrorIs(t, err, ErrOccupied)
	require.ErrorContains(t, err, "another pull")
	require.NoError(t, release())
	_, _, err = p.pull(t)
	require.NoError(t, err)
}

func TestACrashBetweenRenamesIsRestored(t *testing.T) {
	h := hubtest.New(t, repo, repository())
	p := newPuller(t, h, nil)
	_, _, err := p.pull(t)
	require.NoError(t, err)
	require.NoError(t, os.Rename(p.Dir, filepath.Join(filepath.Dir(p.Dir), "."+filepath.Base(p.Dir)+".old")))
	h.Seen()
	_, changed, err := p.pull(t)
	require.NoError(t, err)
	require.False(t, changed)
	require.Empty(t, downloads(h))
	p.complete(t, h.Files, wanted)
}

func TestUnsuitableRepositories(t *testing.T) {
	for name, c := range map[string]struct {
		without  []string
		bot      int
		wantText []string
	}{
		"pickle alone":   {[]string{"model.safetensors"}, 0, []string{"pytorch_model.bin, tf_model.h5", "save_pretrained"}},
		"bot's revision": {[]string{"model.safetensors"}, 14, []string{"acme/tiny@refs/pr/14"}},
		"nothing":        {[]string{"model.safetensors", "pytorch_model.bin", "tf_model.h5"}, 0, []string{"has no model.safetensors"}},
		"no config":      {[]string{"config.json"}, 0, []string{"config.json", "transformers"}},
	} {
		files := repository()
		maps.DeleteFunc(files, func(name string, _ []byte) bool { return slices.Contains(c.without, name) })
		h := hubtest.New(t, repo, files)
		h.Bot = c.bot
		p := newPuller(t, h, nil)
		_, _, err := p.pull(t)
		require.ErrorIs(t, err, ErrUnsuitable, name)
		for _, text := range c.wantText {
			require.ErrorContains(t, err, text, name)
		}
		require.NoDirExists(t, p.Dir+stagingSuffix)
	}
}
