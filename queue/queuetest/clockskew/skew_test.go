package clockskew_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/queue/queuetest/clockskew"
)

// childVariable makes the test binary a process that prints its clock.
const childVariable = "ASSAY_CLOCKSKEW_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		printClock()
		return
	}
	os.Exit(m.Run())
}

// printClock prints the wall clock, and how much time has passed by the monotonic clock, in nanoseconds for every line that
// it reads. Meanwhile other threads read the clock.
func printClock() {
	began := time.Now()
	for range 4 {
		go func() {
			for range time.Tick(100 * time.Microsecond) {
				_ = time.Since(began)
			}
		}()
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		now := time.Now()
		fmt.Println(now.UnixNano(), now.Sub(began).Nanoseconds())
	}
}

func TestSet(t *testing.T) {
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
	replies := bufio.NewReader(out)
	clock := func() (wall time.Time, monotonic time.Duration) {
		t.Helper()
		_, err := fmt.Fprintln(in)
		require.NoError(t, err)
		var nanoseconds int64
		_, err = fmt.Fscanln(replies, &nanoseconds, &monotonic)
		require.NoError(t, err)
		return time.Unix(0, nanoseconds), monotonic
	}
	clock() // it runs
	for _, offset := range []time.Duration{0, time.Hour, -time.Hour, 400 * 24 * time.Hour, -time.Second, 0} {
		if err := clockskew.Set(child.Process.Pid, offset); errors.Is(err, errors.ErrUnsupported) || errors.Is(err, os.ErrPermission) {
			t.Skip(err)
		} else {
			require.NoError(t, err)
		}
		before := time.Now()
		wall, first := clock()
		after := time.Now()
		require.False(t, wall.Before(before.Add(offset)), "%v: %v", offset, wall.Sub(before))
		require.False(t, wall.After(after.Add(offset)), "%v: %v", offset, wall.Sub(after))
		_, second := clock()
		require.GreaterOrEqual(t, second, first)
		require.Less(t, second, time.Minute, "the monotonic clock has not moved")
	}
}

func TestSetRefuses(t *testing.T) {
	require.Error(t, clockskew.Set(os.Getpid(), time.Millisecond), "a fraction of a second")
	require.Error(t, clockskew.Set(1<<30, time.Second), "no such process")
}
