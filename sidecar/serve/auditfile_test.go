package serve

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/api"
)

func TestAuditFileFollowsItsRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	var log bytes.Buffer
	file, err := openAuditFile(path, zerolog.New(&log))
	require.NoError(t, err)
	write := func(line string) {
		n, err := file.Write([]byte(line))
		require.NoError(t, err)
		require.Len(t, line, n)
	}
	write("{\"n\":1}\n")
	require.NoError(t, os.Rename(path, path+".1"))
	write("{\"n\":2}\n")
	write("{\"n\":3}\n")
	rotated, err := os.ReadFile(path + ".1")
	require.NoError(t, err)
	require.Equal(t, "{\"n\":1}\n", string(rotated))
	current, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "{\"n\":2}\n{\"n\":3}\n", string(current))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.Empty(t, log.String())

	require.NoError(t, os.RemoveAll(filepath.Dir(path)))
	write("{\"n\":4}\n")
	require.Contains(t, log.String(), `"line":{"n":4}`, "a line that cannot be written goes to the log")
}

func TestAuditFileEndsALineThatWasCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	file, err := openAuditFile(path, zerolog.Nop())
	require.NoError(t, err)
	_, err = file.file.WriteString("{\"n\":")
	require.NoError(t, err)
	file.torn = true
	for _, line := range []string{"{\"n\":1}\n", "{\"n\":2}\n"} {
		_, err = file.Write([]byte(line))
		require.NoError(t, err)
	}
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "{\"n\":\n{\"n\":1}\n{\"n\":2}\n", string(written))
}

// A crash tears a line too: the next process ends it.
func TestAuditFileEndsALineOfTheProcessBefore(t *testing.T) {
	for name, c := range map[string]struct{ before, want string }{
		"none":     {"", "{\"n\":1}\n"},
		"complete": {"{\"n\":0}\n", "{\"n\":0}\n{\"n\":1}\n"},
		"torn":     {"{\"n\":0}\n{\"n\":", "{\"n\":0}\n{\"n\":\n{\"n\":1}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "audit.jsonl")
			written := func() string {
				content, err := os.ReadFile(path)
				require.NoError(t, err)
				return string(content)
			}
			require.NoError(t, os.WriteFile(path, []byte(c.before), 0o600))
			file, err := openAuditFile(path, zerolog.Nop())
			require.NoError(t, err)
			_, err = file.Write([]byte("{\"n\":1}\n"))
			require.NoError(t, err)
			require.Equal(t, c.want, written())

			// A file that takes the place of the one that is open may be torn as well.
			require.NoError(t, os.Rename(path, path+".1"))
			require.NoError(t, os.WriteFile(path, []byte(c.before), 0o600))
			_, err = file.Write([]byte("{\"n\":1}\n"))
			require.NoError(t, err)
			require.Equal(t, c.want, written())
		})
	}
}

// The line of --pin is in the file before anyone can connect.
func TestPinIsInTheAuditLogBeforeTheListenersOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	s := &Service{config: Config{API: api.DefaultConfig(), AuditLog: path, Pin: "v7", Listen: taken.Addr().String()}, log: zerolog.Nop(), registry: prometheus.NewRegistry()}
	require.ErrorContains(t, s.listen(), "address already in use")
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(written), `"audit":"pin","by":"operator","subject":"v7"`)
}
