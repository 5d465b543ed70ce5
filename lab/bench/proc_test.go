package bench

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// newProcDir writes files below a directory that stands in for /proc.
func newProcDir(t *testing.T, files map[string]string) proc {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return proc{root}
}

// statLine is a line of /proc/PID/stat.
func statLine(name string, group, user, system, childUser, childSystem int) string {
	const rest = "0 1 2 3 17 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14"
	return fmt.Sprintf("7 (%s) S 1 %d 7 0 -1 4194560 1 2 3 4 %d %d %d %d 20 0 1 0 100 1000 10 "+rest+"\n",
		name, group, user, system, childUser, childSystem)
}

func status(peak int) string { return fmt.Sprintf("Name:\tx\nVmHWM:\t  %d kB\nVmRSS:\t 1 kB\n", peak) }

func TestGroup(t *testing.T) {
	p := newProcDir(t, map[string]string{
		"40/stat":         statLine("server) S (x", 40, 100, 50, 7, 3),
		"40/status":       status(1000),
		"40/task/40/stat": statLine("server", 40, 30, 10, 0, 0),
		"40/task/41/stat": statLine("libtorch", 40, 60, 30, 0, 0),
		"40/task/42/stat": statLine("libtorch", 40, 10, 10, 0, 0),
		"50/stat":         statLine("worker", 40, 5, 5, 0, 0),
		"50/status":       status(24),
		"60/stat":         statLine("libtorch", 60, 900, 900, 0, 0),
		"70/stat":         "70 (gone",
		"stat":            "cpu  100 10 20 5000 60 1 2 3 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n",
		"cpuinfo":         "processor\t: 0\nmodel name\t: Fast 9000\n",
	})
	u, err := p.group(40)
	require.NoError(t, err)
	require.Equal(t, usage{CPU: 1700 * time.Millisecond, Model: 1100 * time.Millisecond, Peak: 1024 << 10}, u)
	_, err = p.group(41)
	require.ErrorContains(t, err, "group 41")
	busy, err := p.machine()
	require.NoError(t, err)
	require.Equal(t, 1360*time.Millisecond, busy.Round(time.Millisecond), "without idle and iowait")
	require.Equal(t, "Fast 9000", p.processor())
}

func TestMemory(t *testing.T) {
	all := "RssAnon:\t 300 kB\nRssFile:\t  20 kB\nRssShmem:\t   5 kB\nVmHWM:\t 400 kB\n"
	p := newProcDir(t, map[string]string{"40/status": "Name:\tRssAnon:\n" + all, "50/status": "Name:\tzombie\n"})
	m, err := p.memory(40)
	require.NoError(t, err)
	require.Equal(t, Memory{Anonymous: 300 << 10, File: 20 << 10, Peak: 400 << 10}, m)
	_, err = p.memory(50)
	require.ErrorContains(t, err, "/50/status: no VmHWM")
	_, err = p.memory(60)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// The CPU time of a child process is read from /proc.
func TestGroupOfAChild(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc here")
	}
	cmd := exec.Command("sh", "-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; echo done; read wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = out.Read(make([]byte, 5))
	require.NoError(t, err)
	u, err := newProc().group(cmd.Process.Pid)
	require.NoError(t, err)
	require.NoError(t, in.Close())
	_ = cmd.Wait() // read fails at the end of the input
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	require.InDelta(t, used.Seconds(), u.CPU.Seconds(), 0.05)
	require.Positive(t, u.Peak)
	require.Zero(t, u.Model)
}
