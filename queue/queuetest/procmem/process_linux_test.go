package procmem_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/queue/queuetest/procmem"
)

// childVariable makes the test binary a process that prints what it remembers.
const childVariable = "ASSAY_PROCMEM_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		remember()
		return
	}
	os.Exit(m.Run())
}

// remember makes a text that the program does not contain, and prints it for every line that it reads.
func remember() {
	text := bytes.Repeat([]byte("procmem "), 5)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Printf("%s\n", text)
	}
}

func TestProcess(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"=1")
	in, err := child.StdinPipe()
	require.NoError(t, err)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	t.Cleanup(func() {
		require.NoError(t, in.Close())
		require.NoError(t, child.Wait())
	})
	replies := bufio.NewScanner(out)
	text := func() string {
		_, err := fmt.Fprintln(in)
		require.NoError(t, err)
		require.True(t, replies.Scan())
		return replies.Text()
	}
	before, after := bytes.Repeat([]byte("procmem "), 5), bytes.Repeat([]byte("PROCMEM "), 5)
	require.Equal(t, string(before), text())
	memory, err := procmem.Open(child.Process.Pid)
	if os.IsPermission(err) {
		t.Skip(err)
	}
	require.NoError(t, err)
	defer memory.Close()
	calls := 0
	require.NoError(t, memory.Suspended(func() (bool, error) {
		if calls++; calls == 1 {
			return false, nil // not yet
		}
		at, err := memory.Find(before)
		for i := 0; err == nil && i < len(at); i++ {
			_, err = memory.WriteAt(after, at[i])
		}
		return true, err
	}))
	require.Equal(t, 2, calls)
	require.Equal(t, string(after), text())

	_, _, err = memory.Function("libtorch_cpu.so", "_ZN2at")
	require.ErrorContains(t, err, "does not have libtorch_cpu.so")
}

func TestNoProcess(t *testing.T) {
	_, err := procmem.Open(1 << 30)
	require.Error(t, err)
}
