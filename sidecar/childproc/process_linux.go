package childproc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Executable is the path of the running binary, even if the file has been replaced since.
func Executable() (string, error) {
	const running = "/proc/self/exe"
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	there, err := os.Stat(path)
	if self, failed := os.Stat(running); err == nil && failed == nil && !os.SameFile(there, self) || errors.Is(err, fs.ErrNotExist) {
		return running, nil
	}
	return path, nil
}

// childAttributes make the child die with its parent, and keep Ctrl-C on a terminal from it: the parent stops it.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// setLowestPriority gives all threads of a process the lowest CPU and disk priority, and makes it the first that the kernel kills
// when memory runs out. Threads that it starts later inherit the priority. The parent sets it after the fork: a parent
// thread at that priority would delay the garbage collector.
func setLowestPriority(pid int) error {
	// Any process may raise the score. Without it, the kernel chooses which process to kill.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte("1000"), 0)
	lowered := map[int]bool{}
	for {
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			if lowered[pid] {
				return nil // it has exited
			}
			return err
		}
		before := len(lowered)
		for _, task := range tasks {
			thread, err := strconv.Atoi(task.Name())
			if err != nil || lowered[thread] {
				continue
			}
			if err := setLowestThreadPriority(thread); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
			lowered[thread] = true
		}
		if len(lowered) == before {
			return nil
		}
	}
}

func setLowestThreadPriority(thread int) error {
	const (
		ioprioWhoProcess = 1
		ioprioIdle       = 3 << 13
	)
	if err := unix.Setpriority(unix.PRIO_PROCESS, thread, 19); err != nil {
		return fmt.Errorf("setpriority: %w", err)
	}
	if err := unix.SchedSetAttr(thread, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE, Nice: 19}, 0); err != nil {
		return fmt.Errorf("sched_setattr: %w", err)
	}
	if _, _, code := unix.Syscall(unix.SYS_IOPRIO_SET, ioprioWhoProcess, uintptr(thread), ioprioIdle); code != 0 {
		return fmt.Errorf("ioprio_set: %w", code)
	}
	return nil
}

// memoryOf returns the resident set of a process and its peak, in bytes.
func memoryOf(pid int) (held, peak int64, err error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return 0, 0, err
	}
	status, err := process.NewStatus()
	return int64(status.VmRSS), int64(status.VmHWM), err //nolint:gosec // sizes in memory
}
