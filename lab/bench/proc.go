package bench

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// modelThread is the name of the thread of assay that owns libtorch, and of the threads that libtorch starts from it.
const modelThread = "libtorch"

// tick is the unit of CPU time in /proc/PID/stat, which Linux fixes at 1/100 s for user space.
const tick = 10 * time.Millisecond

// proc reads the accounting of Linux in /proc.
type proc struct{ root string }

func newProc() proc { return proc{procfs.DefaultMountPoint} }

// usage is what the processes of a group have used so far.
type usage struct {
	CPU   time.Duration // user and system, of running processes and of their children that were waited for
	Model time.Duration // of the threads named modelThread
	Peak  int64         // resident bytes: the sum of the peaks of each process
}

// group adds up the processes of a process group.
func (p proc) group(id int) (usage, error) {
	var u usage
	root, err := procfs.NewFS(p.root)
	if err != nil {
		return u, err
	}
	processes, err := root.AllProcs()
	if err != nil {
		return u, err
	}
	found := false
	for _, process := range processes {
		s, err := process.Stat()
		if err != nil || s.PGRP != id {
			continue // it has exited, or is in another group
		}
		found = true
		u.CPU += cpuTime(s) + time.Duration(s.CUTime+s.CSTime)*tick
		if status, err := process.NewStatus(); err == nil {
			u.Peak += int64(status.VmHWM) //nolint:gosec // a size in memory
		}
		u.Model += threadTime(root, process.PID, modelThread)
	}
	if !found {
		return u, fmt.Errorf("%s: no process of group %d", p.root, id)
	}
	return u, nil
}

// threadTime is the CPU time of the threads of a process that have the name.
func threadTime(root procfs.FS, pid int, name string) time.Duration {
	threads, err := root.AllThreads(pid)
	if err != nil {
		return 0 // it has exited
	}
	var sum time.Duration
	for _, thread := range threads {
		if s, err := thread.Stat(); err == nil && s.Comm == name {
			sum += cpuTime(s)
		}
	}
	return sum
}

func cpuTime(s procfs.ProcStat) time.Duration {
	return time.Duration(s.UTime+s.STime) * tick //nolint:gosec // centuries
}

// Memory is the resident memory of a process in bytes.
type Memory struct {
	Anonymous int64 // heaps and stacks: what no file backs
	File      int64 // mapped files, which the kernel may drop
	Peak      int64 // maximum of their sum so far
}

// memory reads the memory of a running process.
func (p proc) memory(pid int) (Memory, error) {
	root, err := procfs.NewFS(p.root)
	if err != nil {
		return Memory{}, err
	}
	process, err := root.Proc(pid)
	if err != nil {
		return Memory{}, err
	}
	status, err := process.NewStatus()
	if err != nil {
		return Memory{}, err
	}
	if status.VmHWM == 0 {
		return Memory{}, fmt.Errorf("%s/%d/status: no VmHWM: the process has exited", p.root, pid)
	}
	return Memory{Anonymous: int64(status.RssAnon), File: int64(status.RssFile), Peak: int64(status.VmHWM)}, nil //nolint:gosec // sizes in memory
}

// machine is the CPU time that all processors together have spent on anything but idling and waiting.
func (p proc) machine() (time.Duration, error) {
	root, err := procfs.NewFS(p.root)
	if err != nil {
		return 0, err
	}
	s, err := root.Stat()
	if err != nil {
		return 0, err
	}
	c := s.CPUTotal
	return time.Duration((c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ + c.Steal) * float64(time.Second)), nil
}

// resetPeak resets the peak resident set of a child process, where the kernel permits it.
func resetPeak(pid int) {
	// Without it, the peak is that since the start, which the first case has in any event.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// Processor is the model name of the first processor, "" where it is unknown.
func Processor() string { return newProc().processor() }

// OwnCPU is the CPU time of this process so far.
func OwnCPU() (time.Duration, error) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0, err
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), nil
}

func (p proc) processor() string {
	text, err := os.ReadFile(p.root + "/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(text) {
		if name, value, ok := bytes.Cut(line, []byte(":")); ok && string(bytes.TrimSpace(name)) == "model name" {
			return string(bytes.TrimSpace(value))
		}
	}
	return ""
}
