package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each start replaces the token file, whatever it was, with one that only this user can read.
func TestPrivateTokenIsReplaced(t *testing.T) {
	victim := filepath.Join(t.TempDir(), "victim")
	require.NoError(t, os.WriteFile(victim, []byte("mine"), 0o600))
	for name, before := range map[string]func(path string) error{
		"nothing":  func(string) error { return nil },
		"readable": func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("a", 26)), 0o644) },
		"link":     func(path string) error { return os.Symlink(victim, path) },
	} {
		t.Run(name, func(t *testing.T) {
			data := filepath.Join(t.TempDir(), "a", "b")
			path := filepath.Join(data, PrivateTokenFile)
			require.NoError(t, os.MkdirAll(data, 0o700))
			require.NoError(t, before(path))
			for _, token := range []string{"first", "second"} {
				require.NoError(t, WritePrivateToken(data, token))
				require.Equal(t, token, readPrivateToken(data))
				info, err := os.Lstat(path)
				require.NoError(t, err)
				require.Equal(t, os.FileMode(0o600), info.Mode(), "a regular file")
			}
			entries, err := os.ReadDir(data)
			require.NoError(t, err)
			require.Len(t, entries, 1, "nothing else is left")
		})
	}
	kept, err := os.ReadFile(victim)
	require.NoError(t, err)
	require.Equal(t, "mine", string(kept))

	data := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(data, PrivateTokenFile), 0o700))
	require.ErrorContains(t, WritePrivateToken(data, "first"), "--private: ")
	entries, err := os.ReadDir(data)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

// The token is not sent to other machines, nor when other credentials are given.
func TestPrivateTokenStaysOnThisMachine(t *testing.T) {
	data := t.TempDir()
	require.NoError(t, WritePrivateToken(data, "the token"))
	for address, local := range map[string]bool{
		"http://127.0.0.1:8080": true, "http://localhost:1": true, "http://[::1]:8080/": true, "nats://127.0.0.9:4222": true, "nats://LOCALHOST": true,
		"http://10.0.0.1:8080": false, "http://assay:8080": false, "http://localhost.example": false, "127.0.0.1:8080": false, "": false,
		"nats://user:password@127.0.0.1": false, "http://127.0.0.1.example": false, "http://0.0.0.0:8080": false,
	} {
		require.Equal(t, local, mayReceivePrivateToken(address), address)
	}
	require.False(t, mayReceivePrivateToken("nats://127.0.0.1:4222", "nats://10.0.0.1:4222"))

	for name, f := range map[string]NATSFlags{
		"token": {NatsToken: "x"}, "creds": {NatsCreds: "x"}, "nkey": {NatsNkey: "x"}, "cert": {NatsCert: "x"},
	} {
		f.NatsURL = "nats://127.0.0.1:4222"
		require.Nil(t, f.PrivateConfig(data).ReadToken, name)
	}
}
