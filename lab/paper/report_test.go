package paper

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReport(t *testing.T) {
	dir := t.TempDir()
	changed, err := WriteReport(dir, syntheticRecords())
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(dir, "README.md"))
	require.NoError(t, err)
	golden(t, "report.md", text)
	require.Contains(t, changed, "README.md")
	for _, name := range changed {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		if filepath.Ext(name) == ".svg" {
			wellFormed(t, data)
			require.Contains(t, string(text), "("+name+")", "every plot is shown")
		}
	}
	golden(t, "files.txt", []byte(strings.Join(changed, "\n")+"\n"))
}

func wellFormed(t *testing.T, svg []byte) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(string(svg)))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			require.NoError(t, err)
		}
	}
}

func TestReportDependsOnNothingButRecords(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	records := syntheticRecords()
	changed, err := WriteReport(one, records)
	require.NoError(t, err)
	slices.Reverse(records)
	_, err = WriteReport(two, records)
	require.NoError(t, err)
	for _, name := range changed {
		a, err := os.ReadFile(filepath.Join(one, name))
		require.NoError(t, err)
		b, err := os.ReadFile(filepath.Join(two, name))
		require.NoError(t, err)
		require.Equal(t, string(a), string(b), name)
	}
	changed, err = WriteReport(one, records)
	require.NoError(t, err)
	require.Empty(t, changed, "nothing new was measured")
}

func TestReportWithoutRecords(t *testing.T) {
	_, err := WriteReport(t.TempDir(), nil)
	require.NoError(t, err)
}

func TestProseSurvives(t *testing.T) {
	dir := t.TempDir()
	_, err := WriteReport(dir, nil)
	require.NoError(t, err)
	path := filepath.Join(dir, "README.md")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	edited := strings.Replace(string(text), "## Overview", "A finding.\n\n## Overview", 1)
	require.NoError(t, os.WriteFile(path, []byte(edited), 0o644))
	_, err = WriteReport(dir, syntheticRecords())
	require.NoError(t, err)
	text, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), "A finding.\n\n## Overview")
	require.Contains(t, string(text), "| BFGPU |")
	require.Equal(t, 1, strings.Count(string(text), "## Overview"))
}

func TestDamagedMarks(t *testing.T) {
	parts := map[string]string{"a": "x\n", "b": "y\n"}
	for name, text := range map[string]string{
		"unknown name": "<!-- results:begin c -->\n<!-- results:end c -->",
		"no end":       "<!-- results:begin a -->\n",
		"other end":    "<!-- results:begin a -->\n<!-- results:end b -->",
		"nested":       "<!-- results:begin a --><!-- results:begin b --><!-- results:end b --><!-- results:end a -->",
		"cut":          "<!-- results:begin a",
	} {
		_, err := fill([]byte(text), parts)
		require.ErrorIs(t, err, ErrMarkers, name)
	}
	out, err := fill([]byte("1\n<!-- results:begin a -->\nold\n<!-- results:end a -->\n2\n"), parts)
	require.NoError(t, err)
	require.Equal(t, "1\n<!-- results:begin a -->\n\nx\n\n<!-- results:end a -->\n2\n", string(out))
}

// The committed report matches the records. UPDATE_GOLDEN=1 writes it.
func TestCommittedReport(t *testing.T) {
	committed, dir := filepath.Join("..", "..", "docs", "paper"), t.TempDir()
	store, err := OpenStore(filepath.Join(committed, "results.jsonl"))
	require.NoError(t, err)
	require.Empty(t, store.Problems())
	if os.Getenv("UPDATE_GOLDEN") != "" {
		_, err := WriteReport(committed, store.Records())
		require.NoError(t, err)
	}
	want, err := os.ReadFile(filepath.Join(committed, "README.md"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "README.md"), want, 0o644))
	_, err = WriteReport(dir, store.Records())
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(dir, "README.md"))
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
	require.Equal(t, names(t, filepath.Join(dir, "plots")), names(t, filepath.Join(committed, "plots")))
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e.Name()
	}
	return out
}
