package processtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ChildrenOf lists the child processes of a process.
func ChildrenOf(t *testing.T, pid int) (children []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has exited
		}
		var child, parent int
		_, after, _ := strings.Cut(string(stat), ") ")
		var state string
		if _, err := fmt.Sscan(after, &state, &parent); err != nil || parent != pid || state == "Z" {
			continue
		}
		if _, err := fmt.Sscan(string(stat), &child); err == nil {
			children = append(children, child)
		}
	}
	return children
}
