package commands_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReport(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	scored := file("scored.jsonl", `{"id":"a","reward":0.1,"violation":0.9,"compliant":false,"witness":{"text":"You fool."}}`+"\n")
	labels := file("labels.jsonl", `{"id":"a","label":"violation"}`+"\n")
	before := file("before.jsonl", `{"id":"a","reward":0.8,"violation":0.2,"compliant":true}`+"\n")
	other := file("other.jsonl", `{"id":"z","reward":0.8,"compliant":true}`+"\n")

	page := filepath.Join(dir, "report.html")
	_, stderr, code := assay(t, "", "report", scored, "--with", labels, "--compare", before, "-o", page)
	require.Zero(t, code, stderr)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, want := range []string{"<!doctype html>", "<title>scored.jsonl</title>", "You fool.", "1 responses have a label", "1 verdicts differ"} {
		require.Contains(t, string(text), want)
	}
	markdown, stderr, code := assay(t, `{"id":"a","reward":1,"compliant":true}`, "report", "-", "--format", "markdown", "--title", "Mine")
	require.Zero(t, code, stderr)
	require.Contains(t, markdown, "# Mine\n")

	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no such file":        {[]string{filepath.Join(dir, "none")}, "none"},
		"not scored":          {[]string{labels}, "labels.jsonl: line 1: has no reward"},
		"labels of others":    {[]string{other, "--with", labels}, "no line has an id of"},
		"responses of others": {[]string{scored, "--compare", other}, "no response has an id of"},
		"nothing":             {nil, "SCORED is missing"},
		"no progress":         {[]string{"--training", labels}, "labels.jsonl: line 1: has no stage or steps"},
		"negative":            {[]string{scored, "--worst=-1"}, "--worst is -1"},
	} {
		_, stderr, code := assay(t, "", append([]string{"report"}, c.args...)...)
		require.Equal(t, 2, code, name)
		require.Contains(t, stderr, c.want, name)
	}
}
