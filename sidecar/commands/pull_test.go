package commands_test

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/hub"
	"assay/rewardmodel/hub/hubtest"
	"assay/sidecar/cli"
	"assay/sidecar/processtest"
)

// tinyHub serves the tiny model as acme/tiny, and sets the environment and the working
// directory for it.
func tinyHub(t *testing.T) *hubtest.Hub {
	t.Helper()
	model := processtest.TinyModel(t, nil)
	entries, err := os.ReadDir(model)
	require.NoError(t, err)
	files := map[string][]byte{"README.md": []byte("---\nlicense: mit\n---\n"), "pytorch_model.bin": []byte("pickle")}
	for _, e := range entries {
		files[e.Name()], err = os.ReadFile(filepath.Join(model, e.Name()))
		require.NoError(t, err)
	}
	h := hubtest.New(t, "acme/tiny", files)
	t.Setenv("HF_ENDPOINT", h.URL)
	t.Setenv("HF_HOME", t.TempDir())
	t.Setenv("HF_TOKEN", "")
	t.Chdir(t.TempDir())
	return h
}

func TestPullThenScore(t *testing.T) {
	h := tinyHub(t)
	stdout, stderr, code := assay(t, "", "pull", "acme/tiny")
	require.Equal(t, cli.ExitDone, code, stderr)
	require.Equal(t, filepath.Join("models", "tiny")+"\n", stdout)
	require.Contains(t, stderr, hubtest.Commit)
	require.Contains(t, stderr, `"license":"mit"`)
	require.NotContains(t, stderr, "cannot use")
	require.NoFileExists(t, "models/tiny/pytorch_model.bin")
	require.FileExists(t, "models/tiny/README.md")

	for _, name := range []string{"models/tiny", "tiny", "acme/tiny"} {
		stdout, stderr, code = assay(t, "One.\n", "score", "--text", "--threads", "1", "--model", name)
		require.Equal(t, cli.ExitDone, code, stderr)
		require.Len(t, processtest.Results(t, stdout), 1)
	}
	_, _, code = assay(t, "One.\n", "score", "--text", "--model", "other/tiny")
	require.Equal(t, cli.ExitUsage, code, "a repository of the same last name")

	h.Seen()
	_, stderr, code = assay(t, "", "pull", "acme/tiny@"+hubtest.Commit)
	require.Equal(t, cli.ExitDone, code)
	require.Contains(t, stderr, "already up to date")
	require.Empty(t, h.Seen())
}

// TestKilledPullResumes ends a process during the download of the weights, with
// SIGTERM and SIGKILL.
func TestKilledPullResumes(t *testing.T) {
	for name, signal := range map[string]os.Signal{"SIGKILL": syscall.SIGKILL, "SIGTERM": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			h := tinyHub(t)
			weights := h.Files["model.safetensors"]
			intercept := func(w http.ResponseWriter, r *http.Request, cdn bool) bool {
				if !cdn || r.Header.Get("Range") != "" {
					return false
				}
				w.Header().Set("Content-Length", strconv.Itoa(len(weights)))
				w.Header().Set("ETag", `"`+hubtest.SHA256(weights)+`"`)
				_, _ = w.Write(weights[:len(weights)/2])
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done() // until the process ends
				return true
			}
			h.Update(func() { h.Intercept = intercept })
			cmd := exec.CommandContext(t.Context(), os.Args[0], "pull", "acme/tiny")
			cmd.Env = append(os.Environ(), processtest.ChildVariable+"=1")
			require.NoError(t, cmd.Start())
			part := filepath.Join("models", "tiny.pulling", "model.safetensors.part")
			require.Eventually(t, func() bool {
				info, err := os.Stat(part)
				return err == nil && info.Size() == int64(len(weights)/2)
			}, processtest.Timeout, time.Millisecond)
			require.NoError(t, cmd.Process.Signal(signal))
			require.Error(t, cmd.Wait())
			require.NoDirExists(t, "models/tiny")
			h.Seen()

			_, stderr, code := assay(t, "", "pull", "acme/tiny")
			require.Equal(t, cli.ExitDone, code, stderr)
			pulled, err := os.ReadFile("models/tiny/model.safetensors")
			require.NoError(t, err)
			require.True(t, bytes.Equal(weights, pulled))
			seen := h.Seen()
			last := seen[len(seen)-1]
			require.True(t, last.CDN)
			require.Equal(t, []string{"bytes=" + strconv.Itoa(len(weights)/2) + "-"}, last.Header["Range"])
		})
	}
}

func TestPullReadsTheTokenOfALogin(t *testing.T) {
	h := tinyHub(t)
	h.Token = "hf_login"
	_, stderr, code := assay(t, "", "pull", "acme/tiny")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "HF_TOKEN")

	require.NoError(t, os.WriteFile(filepath.Join(os.Getenv("HF_HOME"), "token"), []byte("hf_login\n"), 0o600))
	_, stderr, code = assay(t, "", "--log-level", "trace", "pull", "acme/tiny", "--out", "mine")
	require.Equal(t, cli.ExitDone, code, stderr)
	require.NotContains(t, stderr, "hf_login")
	require.FileExists(t, "mine/"+hub.ReceiptFile)

	t.Setenv("HF_TOKEN", "hf_wrong")
	_, stderr, code = assay(t, "", "pull", "acme/tiny", "--out", "other")
	require.Equal(t, cli.ExitUsage, code, "HF_TOKEN comes first")
	require.NotContains(t, stderr, "hf_wrong")
}

func TestPullWarnsAboutUnusableCheckpoints(t *testing.T) {
	h := tinyHub(t)
	h.Files["config.json"] = []byte(`{"model_type":"t5"}`)
	for _, name := range []string{"tokenizer.json", "vocab.json", "merges.txt", "vocab.txt", "assay.json"} {
		delete(h.Files, name)
	}
	stdout, stderr, code := assay(t, "", "pull", "acme/tiny")
	require.Equal(t, cli.ExitDone, code, stderr)
	require.NotEmpty(t, stdout)
	require.Contains(t, stderr, "cannot use the checkpoint")
	require.Contains(t, stderr, "t5")
	require.Contains(t, stderr, "tokenizer.json")
	require.FileExists(t, "models/tiny/model.safetensors")
}

func TestPullErrors(t *testing.T) {
	h := tinyHub(t)
	h.Intercept = func(w http.ResponseWriter, _ *http.Request, _ bool) bool {
		w.WriteHeader(http.StatusTeapot)
		return true
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"../x"}, cli.ExitUsage, "ORG/NAME"},
		{[]string{"acme/tiny@"}, cli.ExitUsage, "no revision after @"},
		{[]string{"acme/tiny@a", "--revision", "b"}, cli.ExitUsage, "conflicts with"},
		{[]string{"acme/tiny", "--endpoint", "nowhere"}, cli.ExitUsage, "nowhere"},
		{[]string{"acme/tiny", "--include", "*.bin"}, cli.ExitUsage, "pickles"},
		{[]string{"acme/tiny"}, cli.ExitFailed, "418"},
		{[]string{}, cli.ExitUsage, "repo"},
	} {
		stdout, stderr, code := assay(t, "", append([]string{"pull"}, c.args...)...)
		require.Equal(t, c.code, code, stderr)
		require.Contains(t, stderr, c.says)
		require.Empty(t, stdout)
	}
}
