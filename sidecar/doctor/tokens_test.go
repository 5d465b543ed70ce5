package doctor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTokenFile(t *testing.T) {
	const token = "0123456789abcdef"
	for name, tc := range map[string]struct {
		content string
		mode    os.FileMode
		outcome
	}{
		"good":       {token + "1 score,feedback a\n" + token + "2 admin b\n", 0o600, outcome{OK, []string{"score: 1, feedback: 1, admin: 1"}}},
		"by group":   {token + " score\n", 0o440, outcome{OK, nil}},
		"by others":  {token + " score\n", 0o644, outcome{Warning, []string{"0644", "chmod 600"}}},
		"no scope":   {token + "\n", 0o600, outcome{Error, []string{"line 1", "the scopes are missing"}}},
		"empty":      {"", 0o600, outcome{Error, []string{"no token"}}},
		"not quoted": {"secret0123456789 " + token + "\n", 0o600, outcome{Error, []string{"line 1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tokens")
			require.NoError(t, os.WriteFile(path, []byte(tc.content), 0o600))
			require.NoError(t, os.Chmod(path, tc.mode))
			found := readTokenFile(path).findings()
			tc.of(t, found)
			for _, f := range found {
				require.NotContains(t, f.Detail, token[:8], "no secret is printed")
			}
		})
	}
	outcome{Error, []string{"no such file"}}.of(t, readTokenFile(filepath.Join(t.TempDir(), "none")).findings())
	outcome{OK, nil}.of(t, noTokenFile(false, false))
	outcome{OK, []string{"--private"}}.of(t, noTokenFile(true, false))
	outcome{Warning, []string{"--insecure"}}.of(t, noTokenFile(false, true))
}
