package childproc

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"assay/sidecar/processtest"
)

// parentVariable makes TestChildParent a process that runs a child until it is killed.
const parentVariable = "TEST_CHILD_ARGS"

// TestChildParent is not a test.
func TestChildParent(t *testing.T) {
	args := os.Getenv(parentVariable)
	if args == "" {
		t.Skip("a part of TestChildDiesWithItsParent")
	}
	c, _ := testChild(t)
	require.NoError(t, c.Run(t.Context(), strings.Split(args, "\n"), Limits{}, func(line []byte) {
		fmt.Fprintf(os.Stdout, "%s\n", line)
	}))
}

// Every thread of the child has the lowest priority, and kill -9 of the process that started it kills it.
func TestChildYieldsAndDiesWithItsParent(t *testing.T) {
	args, _ := longTraining(t)
	parent := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildParent$")
	parent.Env = append(os.Environ(), parentVariable+"="+strings.Join(args, "\n"))
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.Contains(lines.Text(), `"epoch":2`) { // libtorch has all its threads by now
	}

	children := processtest.ChildrenOf(t, parent.Process.Pid)
	require.Len(t, children, 1)
	pid := children[0]
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	require.NoError(t, err)
	require.Greater(t, len(threads), 1)
	for _, thread := range threads {
		var id int
		_, err := fmt.Sscan(thread.Name(), &id)
		require.NoError(t, err)
		attr, err := unix.SchedGetAttr(id, 0)
		require.NoError(t, err)
		require.EqualValues(t, unix.SCHED_IDLE, attr.Policy, "thread %d", id)
	}
	held, peak, err := memoryOf(pid)
	require.NoError(t, err)
	require.Greater(t, held, int64(1<<20))
	require.GreaterOrEqual(t, peak, held)
	group, err := unix.Getpgid(pid)
	require.NoError(t, err)
	require.Equal(t, pid, group, "a signal to the group of the service does not reach it")

	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait() // killed
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ")
	}, processtest.Timeout, 10*time.Millisecond)
}
