package api

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/internal/filewatch"
)

const (
	longToken  = "0123456789abcdef"
	otherToken = "fedcba9876543210"
)

func TestParseTokens(t *testing.T) {
	grants, err := parseTokens(strings.NewReader("# who may\r\n\n" +
		longToken + " score\n" +
		"\t" + otherToken + "==  feedback,score  ann@example.org  # of the labeling team\n" +
		"-._~+/ABCDEFGHIJKLMNO admin ops\n"))
	require.NoError(t, err)
	require.Len(t, grants, 3)
	require.Equal(t, "9f9f5111", grants[0].name, "the first digits of its SHA-256")
	require.Equal(t, []Scope{ScopeScore}, grants[0].scopes)
	require.Equal(t, "ann@example.org", grants[1].name)
	require.Equal(t, []Scope{ScopeFeedback, ScopeScore}, grants[1].scopes)
	for _, scope := range []Scope{ScopeScore, ScopeFeedback, ScopeAdmin} {
		require.NoError(t, grants[2].require(scope))
		require.Equal(t, scope == ScopeScore, grants[0].require(scope) == nil)
		require.Equal(t, scope != ScopeAdmin, grants[1].require(scope) == nil)
	}
}

func TestParseTokensNamesTheLine(t *testing.T) {
	const secret = "hush-hush-hush-hush"
	for name, c := range map[string]struct{ file, message string }{
		"empty":           {"", "no token"},
		"only comments":   {"# a\n\n  # b\n", "no token"},
		"no scope":        {"\n" + secret + "\n", "line 2: the scopes are missing"},
		"scope commented": {secret + " # score\n", "line 1: the scopes are missing"},
		"spaced scopes":   {secret + " score, feedback ann\n", "line 1: there are more than three columns"},
		"unknown scope":   {secret + " score,root\n", "line 1: the second column"},
		"trailing comma":  {secret + " score,\n", "line 1: the second column"},
		"mixed up":        {"admin " + secret + "\n", "line 1: the token has 5 characters"},
		"mixed up long":   {"0123456789abcdefg " + secret + "\n", "line 1: the second column"},
		"short":           {longToken + " score\n0123456789abcde score\n", "line 2: the token has 15 characters"},
		"long":            {strings.Repeat("a", 4097) + " score\n", "line 1: the token has 4097 characters"},
		"odd characters":  {"\"" + secret + "\" score\n", "line 1: the token has a character"},
		"not ASCII":       {"é" + secret + " score\n", "line 1: the token has a character"},
		"equals inside":   {"abcdefgh=abcdefgh score\n", "line 1: the token has a character"},
		"bad name":        {secret + " score a;b\n", "line 1: the name"},
		"long name":       {secret + " score " + strings.Repeat("a", 65) + "\n", "line 1: the name"},
		"reserved name":   {secret + " score gate\n", "line 1: the name gate"},
		"owner's name":    {secret + " score owner\n", "line 1: the name owner"},
		"twice":           {secret + " score\n\n" + secret + " feedback ann\n", "line 3: the token of line 1 again"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseTokens(strings.NewReader(c.file))
			require.ErrorContains(t, err, c.message)
			require.NotContains(t, err.Error(), "hush")
		})
	}
}

func FuzzParseTokens(f *testing.F) {
	f.Add("# who may\n" + longToken + " score,feedback ann # x\n" + otherToken + "= admin\r\n")
	f.Add(longToken + "\tadmin\n" + longToken + "\tadmin\n")
	f.Add("\x00\xff " + longToken)
	f.Fuzz(func(t *testing.T, file string) {
		grants, err := parseTokens(strings.NewReader(file))
		if err != nil {
			for field := range strings.FieldsSeq(file) {
				if len(field) >= 20 && strings.Contains(err.Error(), field) {
					t.Fatalf("the error quotes the file: %v", err)
				}
			}
			return
		}
		seen := map[[32]byte]bool{}
		for _, g := range grants {
			if seen[g.sum] || len(g.scopes) == 0 || g.name == "" {
				t.Fatalf("a grant without scope or name, or twice: %+v", g)
			}
			seen[g.sum] = true
		}
	})
}

func TestLoadTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	_, err := LoadTokens(path, zerolog.Nop())
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "token file")
	require.NoError(t, os.WriteFile(path, []byte("short score\n"), 0o600))
	_, err = LoadTokens(path, zerolog.Nop())
	require.ErrorContains(t, err, path+": line 1")
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("#"), filewatch.MaxBytes+1), 0o600))
	_, err = LoadTokens(path, zerolog.Nop())
	require.ErrorContains(t, err, "larger than")
	_, err = LoadTokens(t.TempDir(), zerolog.Nop())
	require.ErrorContains(t, err, "token file")
}

// logBuffer is a log that can be read concurrently.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *logBuffer) Write(line []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(line)
}

func (n *logBuffer) take() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer n.text.Reset()
	return n.text.String()
}

// The file may be replaced in any way, and an invalid one changes nothing.
func TestTokensAreReloaded(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tokens")
	mount := func(name, content string) { // as a Kubernetes secret is mounted
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, "tokens"), []byte(content), 0o600))
		require.NoError(t, os.Symlink(name, filepath.Join(dir, "next")))
		require.NoError(t, os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "data")))
	}
	mount("one", longToken+" score\n")
	require.NoError(t, os.Symlink(filepath.Join("data", "tokens"), path))

	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		tokens, err := LoadTokens(path, zerolog.New(&log))
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		go tokens.Watch(ctx)
		has := func(token string) bool { _, ok := tokens.find(token); return ok }
		logged := func() string {
			<-time.After(5 * filewatch.Period)
			synctest.Wait()
			return log.take()
		}
		require.True(t, has(longToken))
		require.False(t, has(otherToken))
		require.Empty(t, logged())

		mount("two", otherToken+" score\n")
		require.Contains(t, logged(), "the tokens changed")
		require.False(t, has(longToken))
		require.True(t, has(otherToken))

		mount("three", longToken+" everything\n")
		trouble := logged()
		require.Equal(t, 1, strings.Count(trouble, "line 1"), trouble)
		require.NotContains(t, trouble, longToken)
		require.True(t, has(otherToken), "the previous tokens stay valid")

		require.NoError(t, os.Remove(path))
		require.Equal(t, 1, strings.Count(logged(), "cannot be read"), "reported once")
		require.True(t, has(otherToken))

		require.NoError(t, os.WriteFile(path, []byte(longToken+" admin\n"), 0o600))
		require.Contains(t, logged(), "the tokens changed")
		require.True(t, has(longToken))
		stop()
	})
}
