package commands_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"assay/sidecar/cli"
	"assay/sidecar/processtest"
	"assay/sidecar/program"
)

func TestSegmentGolden(t *testing.T) {
	in := golden(t, "texts.jsonl")
	for unit, name := range map[string]string{"codepoint": "segment.jsonl", "utf8": "segment.utf8.jsonl", "utf16": "segment.utf16.jsonl"} {
		stdout, stderr, code := assay(t, in, "segment", "--offset-unit", unit)
		require.Equal(t, cli.ExitDone, code, stderr)
		update(t, name, stdout)
		require.Equal(t, golden(t, name), stdout, name)
	}
}

func TestTokenizeGolden(t *testing.T) {
	stdout, stderr, code := assay(t, golden(t, "texts.jsonl"), "tokenize", "--model", processtest.BPEDir(t))
	require.Equal(t, cli.ExitDone, code, stderr)
	update(t, "tokenize.jsonl", stdout)
	require.Equal(t, golden(t, "tokenize.jsonl"), stdout)
}

func TestTokenizeAddsSpecialTokens(t *testing.T) {
	stdout, _, code := assay(t, `{"text":"é </s>"}`, "tokenize", "--model", processtest.BPEDir(t))
	require.Equal(t, cli.ExitDone, code)
	var got struct {
		ID      string   `json:"id"`
		IDs     []int32  `json:"ids"`
		Offsets [][2]int `json:"offsets"`
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &got))
	require.Equal(t, "1", got.ID)
	require.Len(t, got.Offsets, len(got.IDs))
	last := len(got.IDs) - 1
	require.EqualValues(t, 0, got.IDs[0])
	require.EqualValues(t, 2, got.IDs[last])
	require.NotContains(t, got.IDs[1:last], int32(2), "text is never a special token")
	require.Equal(t, [2]int{0, 0}, got.Offsets[0])
	require.Equal(t, [2]int{0, 0}, got.Offsets[last])
	require.Equal(t, [2]int{0, 1}, got.Offsets[1])
}

func TestInvalidLines(t *testing.T) {
	long := strings.Repeat("A sentence of some words. ", 100_000)
	for name, c := range map[string]struct {
		in    string
		args  []string
		says  string // error of the invalid line; "" for none
		lines int    // number of results written nevertheless
	}{
		"none":             {in: "", lines: 0},
		"blank lines":      {in: "\n \n{\"text\":\"a\"}\n\n", lines: 1},
		"no last newline":  {in: `{"text":"a"}`, lines: 1},
		"CRLF and a BOM":   {in: "\ufeff{\"text\":\"a\"}\r\n{\"text\":\"b\"}\r\n", lines: 2},
		"a long line":      {in: `{"text":"` + long + `"}`, lines: 1},
		"odd text":         {in: `{"text":"\u0000 \ufffe"}`, lines: 1},
		"broken":           {in: "{\"text\":\"a\"}\n{\"text\"\n{\"text\":\"b\"}", says: "line 2", lines: 1},
		"no text":          {in: `{"id":"a"}`, says: "text is missing"},
		"a null":           {in: `{"text":null}`, says: "text is missing"},
		"a number":         {in: `{"text":1}`, says: "line 1"},
		"not UTF-8":        {in: "{\"text\":\"\xff\"}", says: "line 1"},
		"a lone surrogate": {in: `{"text":"\ud800"}`, says: "line 1"},
		"skipped":          {in: "x\n{\"text\":\"a\"}\ny\n{\"text\":\"b\"}", args: []string{"--skip-bad"}, says: "line 3", lines: 2},
		"texts":            {in: "One. Two.\n\n\xff\n", args: []string{"--text"}, lines: 3},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := assay(t, c.in, append([]string{"segment"}, c.args...)...)
			require.Equal(t, c.lines, strings.Count(stdout, "\n"))
			require.Contains(t, stderr, c.says)
			want := cli.ExitUsage
			if c.says == "" || len(c.args) > 0 {
				want = cli.ExitDone
			}
			require.Equal(t, want, code, stderr)
		})
	}
}

func TestInvalidLineErrorNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in.jsonl")
	require.NoError(t, os.WriteFile(path, []byte("{}\n"), 0o600))
	_, stderr, code := assay(t, "", "segment", path)
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "in.jsonl: line 1")
	_, stderr, code = assay(t, "", "segment", path+".missing")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "in.jsonl.missing")
}

// closedPipe is a standard output whose reader, such as head, has exited.
type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestClosedOutputEndsQuietly(t *testing.T) {
	var stderr strings.Builder
	in := strings.NewReader(strings.Repeat("{\"text\":\"Some words.\"}\n", 10_000))
	code := program.Assay().Run(t.Context(), []string{"assay", "segment"}, in, closedPipe{}, &stderr)
	require.Equal(t, cli.ExitDone, code)
	require.Empty(t, stderr.String())
}
