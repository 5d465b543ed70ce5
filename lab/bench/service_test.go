package bench

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fakeService is a program that serves where the flags say, and writes its flags to a file.
func fakeService(t *testing.T) (binary, flags string) {
	t.Helper()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc here")
	}
	dir := t.TempDir()
	binary, flags = filepath.Join(dir, "assay"), filepath.Join(dir, "flags")
	script := "#!/bin/sh\nprintf '%s\\n' \"$*\" > " + flags + `
while [ "$1" != --listen ]; do shift; done
` + fakeServer + `="$2" exec ` + os.Args[0] + "\n"
	require.NoError(t, os.WriteFile(binary, []byte(script), 0o755)) //nolint:gosec // it is run
	return binary, flags
}

func TestService(t *testing.T) {
	binary, flags := fakeService(t)
	s, err := StartService(t.Context(), ServiceOptions{Binary: binary, Timeout: time.Minute, Flags: []string{"--precision", "int8"}})
	require.NoError(t, err)
	told, err := os.ReadFile(flags)
	require.NoError(t, err)
	require.Contains(t, string(told), "serve --no-train --data-dir "+s.scratch+" ")
	require.Contains(t, string(told), "--precision int8\n")
	require.Positive(t, s.Start)
	m, err := s.Memory()
	require.NoError(t, err)
	require.Positive(t, m.Anonymous)
	require.GreaterOrEqual(t, m.Peak, m.Anonymous)
	_, err = s.CPU()
	require.NoError(t, err)

	require.NoError(t, s.process.cmd.Process.Kill())
	<-s.Done()
	require.ErrorContains(t, s.Err(), "the service exited: signal: killed")
	require.NoError(t, s.Close())
	require.NoDirExists(t, s.scratch)
}

func TestServiceThatDoesNotStart(t *testing.T) {
	_, err := StartService(t.Context(), ServiceOptions{Binary: filepath.Join(t.TempDir(), "assay"), Timeout: time.Minute})
	require.ErrorIs(t, err, os.ErrNotExist)

	binary := filepath.Join(t.TempDir(), "assay")
	require.NoError(t, os.WriteFile(binary, []byte("#!/bin/sh\necho no such model\nexit 2\n"), 0o755)) //nolint:gosec // it is run
	_, err = StartService(t.Context(), ServiceOptions{Binary: binary, Timeout: time.Minute})
	require.ErrorContains(t, err, "exit status 2\nno such model")

	require.NoError(t, os.WriteFile(binary, []byte("#!/bin/sh\nexec sleep 60\n"), 0o755)) //nolint:gosec // it is run
	_, err = StartService(t.Context(), ServiceOptions{Binary: binary, Timeout: 50 * time.Millisecond})
	require.ErrorContains(t, err, "not ready after 50ms")
}
