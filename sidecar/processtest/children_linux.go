package processtest

import (
	"testing"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"
)

// ChildrenOf lists the child processes of a process, without zombies.
func ChildrenOf(t *testing.T, pid int) (children []int) {
	t.Helper()
	processes, err := procfs.AllProcs()
	require.NoError(t, err)
	for _, process := range processes {
		stat, err := process.Stat()
		if err == nil && stat.PPID == pid && stat.State != "Z" { // an error means that it has exited
			children = append(children, process.PID)
		}
	}
	return children
}
