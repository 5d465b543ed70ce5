package daemon

import (
	"testing"

	"github.com/stretchr/testify/require"

	"assay/sidecar/serve"
)

func TestAnnouncedCommandsRunInAShell(t *testing.T) {
	for word, want := range map[string]string{
		"bin/assay": "bin/assay", "/my dir/assay": "'/my dir/assay'", "it's": `'it'\''s'`, "": "''",
	} {
		require.Equal(t, want, shellQuote(word))
	}
	for url, want := range map[string]string{
		"http://127.0.0.1:80": "http://127.0.0.1:80", "http://[::]:80": "http://127.0.0.1:80",
		"nats://0.0.0.0:4222": "nats://127.0.0.1:4222", "http://[::1]:80": "http://[::1]:80",
		"nats://a:1,b:2": "nats://a:1,b:2",
	} {
		require.Equal(t, want, serve.Reachable(url))
	}
}
