package access

import (
	"bytes"
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/api/internal/quota"
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
		"empty":             {"", "no token"},
		"only comments":     {"# a\n\n  # b\n", "no token"},
		"no scope":          {"\n" + secret + "\n", "line 2: the scopes are missing"},
		"scope commented":   {secret + " # score\n", "line 1: the scopes are missing"},
		"spaced scopes":     {secret + " score, feedback ann\n", "line 1: there are more than three columns"},
		"unknown scope":     {secret + " score,root\n", "line 1: the second column"},
		"trailing comma":    {secret + " score,\n", "line 1: the second column"},
		"mixed up":          {"admin " + secret + "\n", "line 1: the token has 5 characters"},
		"mixed up long":     {"0123456789abcdefg " + secret + "\n", "line 1: the second column"},
		"short":             {longToken + " score\n0123456789abcde score\n", "line 2: the token has 15 characters"},
		"long":              {strings.Repeat("a", 4097) + " score\n", "line 1: the token has 4097 characters"},
		"odd characters":    {"\"" + secret + "\" score\n", "line 1: the token has a character"},
		"not ASCII":         {"é" + secret + " score\n", "line 1: the token has a character"},
		"equals inside":     {"abcdefgh=abcdefgh score\n", "line 1: the token has a character"},
		"bad name":          {secret + " score a;b\n", "line 1: the name"},
		"long name":         {secret + " score " + strings.Repeat("a", 65) + "\n", "line 1: the name"},
		"reserved name":     {secret + " score gate\n", "line 1: the name gate"},
		"owner's name":      {secret + " score owner\n", "line 1: the name owner"},
		"hashed twice":      {longToken + " score\nsha256:9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f score\n", "line 2: the token of line 1 again"},
		"short hash":        {"sha256:9f9f5111 score\n", "line 1: the hash in the first column"},
		"long hash":         {"sha256:" + strings.Repeat("0", 65) + " score\n", "line 1: the hash in the first column"},
		"no hash":           {"sha256:" + strings.Repeat("x", 64) + " score\n", "line 1: the hash in the first column"},
		"certificate":       {"cert:" + secret + " score\n", "line 1: the first column is not the name of a certificate"},
		"nameless":          {"cert:cn= score\n", "line 1: the first column is not the name of a certificate"},
		"certificate again": {"cert:cn=a score\ncert:cn=a admin\n", "line 2: the token of line 1 again"},
		"name last":         {secret + " score rate=1/s " + secret + "\n", "line 1: a column after the limits"},
		"limit twice":       {secret + " score rate=1/s rate=2/s\n", "line 1: the limit rate is given twice"},
		"no unit":           {secret + " score rate=1\n", "line 1: the limit rate has no unit"},
		"no rate":           {secret + " score rate=0/s\n", "line 1: the value of the limit rate"},
		"no count":          {secret + " score concurrent=" + secret + "\n", "line 1: the value of the limit concurrent"},
		"no size":           {secret + " score body=1PiB\n", "line 1: the value of the limit body"},
		"twice":             {secret + " score\n\n" + secret + " feedback ann\n", "line 3: the token of line 1 again"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseTokens(strings.NewReader(c.file))
			require.ErrorContains(t, err, c.message)
			require.NotContains(t, err.Error(), "hush")
		})
	}
}

func TestParseLimits(t *testing.T) {
	grants, err := parseTokens(strings.NewReader(longToken + " score trainer rate=600/m body=8MiB concurrent=4 # as agreed\n" +
		otherToken + " feedback labels=5000/d\ncert:uri=spiffe://example.org/assay admin ops\n"))
	require.NoError(t, err)
	require.Equal(t, quota.Limits{Requests: quota.Rate{N: 600, Per: time.Minute}, Concurrent: 4, MaxBody: 8 << 20}, grants[0].quota.Limits())
	require.Equal(t, "trainer", grants[0].name)
	require.Equal(t, quota.Limits{Labels: quota.Rate{N: 5000, Per: 24 * time.Hour}}, grants[1].quota.Limits())
	require.Nil(t, grants[2].quota)
	require.Equal(t, certificateName{"uri", "spiffe://example.org/assay"}, grants[2].certificate)
}

// No text is a token because its hash, or the name of a certificate, is in the file.
func TestFindComparesTokensOnly(t *testing.T) {
	hash := "9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f" // of longToken
	list, err := parseTokens(strings.NewReader("sha256:" + hash + " score\ncert:cn=certificate-of-a-trainer admin\n"))
	require.NoError(t, err)
	var tokens Tokens
	tokens.replace(list)
	_, ok := tokens.find(longToken)
	require.True(t, ok)
	for _, token := range []string{hash, "sha256:" + hash, "cert:cn=certificate-of-a-trainer", "cn=certificate-of-a-trainer", "certificate-of-a-trainer", ""} {
		_, ok := tokens.find(token)
		require.False(t, ok, token)
	}
	_, ok = tokens.findSum([32]byte{}) // of a line with a certificate
	require.False(t, ok)
}

// A caller cannot reset what it has used by a change of another line.
func TestReloadKeepsUsedQuotas(t *testing.T) {
	tokens := &Tokens{log: zerolog.Nop()}
	load := func(file string) {
		list, err := parseTokens(strings.NewReader(file))
		require.NoError(t, err)
		tokens.replace(list)
	}
	request := func() error {
		g, ok := tokens.find(longToken)
		require.True(t, ok)
		return g.quota.Request()
	}
	load(longToken + " score rate=1/d\n")
	require.NoError(t, request())
	load(longToken + " score,feedback rate=1/d\n" + otherToken + " score\n")
	require.Error(t, request())
	load(longToken + " score rate=2/d\n")
	require.NoError(t, request(), "other limits start with nothing used")
}

func TestCertificateNames(t *testing.T) {
	id, err := url.Parse("spiffe://example.org/ns/rl/sa/trainer")
	require.NoError(t, err)
	certificate := &x509.Certificate{
		Subject: pkix.Name{CommonName: "trainer"}, DNSNames: []string{"other.example.org", "Trainer.example.org"}, URIs: []*url.URL{id},
		NotAfter: time.Now().Add(time.Hour),
	}
	for name, matches := range map[string]bool{
		"cn=trainer": true, "cn=Trainer": false, "cn=other.example.org": false, "dns=trainer.example.org": true, "dns=*.example.org": false,
		"dns=trainer": false, "uri=spiffe://example.org/ns/rl/sa/trainer": true, "uri=spiffe://example.org/ns/rl/sa": false,
	} {
		list, err := parseTokens(strings.NewReader("cert:" + name + " score\n"))
		require.NoError(t, err)
		var tokens Tokens
		tokens.replace(list)
		_, ok := tokens.findCertificate(certificate)
		require.Equal(t, matches, ok, name)
		_, ok = tokens.findCertificate(nil)
		require.False(t, ok)
	}
	var tokens Tokens
	list, err := parseTokens(strings.NewReader("cert:cn=trainer score\n"))
	require.NoError(t, err)
	tokens.replace(list)
	certificate.NotAfter = time.Now().Add(-time.Second)
	_, ok := tokens.findCertificate(certificate)
	require.False(t, ok, "expired on an open connection")
}

func FuzzParseTokens(f *testing.F) {
	f.Add("# who may\n" + longToken + " score,feedback ann # x\n" + otherToken + "= admin\r\n")
	f.Add(longToken + "\tadmin\n" + longToken + "\tadmin\n")
	f.Add("sha256:" + strings.Repeat("0f", 32) + " score rate=5/s body=1MiB\ncert:dns=a.example.org admin a concurrent=1 labels=1/d")
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
		seen := map[string]bool{}
		for _, g := range grants {
			credential := string(g.sum[:]) + g.certificate.String()
			if seen[credential] || len(g.scopes) == 0 || g.name == "" {
				t.Fatalf("a grant without scope or name, or twice: %+v", g)
			}
			seen[credential] = true
		}
	})
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	_, err := Load(path, zerolog.Nop())
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "token file")
	require.NoError(t, os.WriteFile(path, []byte("short score\n"), 0o600))
	_, err = Load(path, zerolog.Nop())
	require.ErrorContains(t, err, path+": line 1")
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte("#"), filewatch.MaxBytes+1), 0o600))
	_, err = Load(path, zerolog.Nop())
	require.ErrorContains(t, err, "larger than")
	_, err = Load(t.TempDir(), zerolog.Nop())
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
		tokens, err := Load(path, zerolog.New(&log))
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
