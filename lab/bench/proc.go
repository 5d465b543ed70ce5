package bench

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// modelThread is the name of the thread of assay that owns libtorch, and of the threads that libtorch starts from it.
const modelThread = "libtorch"

// tick is the unit of CPU time in /proc, which Linux has long fixed for programs.
const tick = 10 * time.Millisecond

// proc reads the accounting of Linux in /proc.
type proc struct{ root fs.FS }

func newProc() proc { return proc{os.DirFS("/proc")} }

// usage is what the processes of a group have used so far.
type usage struct {
	CPU   time.Duration // user and system, of living processes and of their children that were waited for
	Model time.Duration // of the threads named modelThread
	Peak  int64         // resident bytes: the sum of the peaks of each process
}

// group adds up the processes of a process group.
func (p proc) group(id int) (usage, error) {
	var u usage
	stats, err := fs.Glob(p.root, "[0-9]*/stat")
	if err != nil {
		return u, err
	}
	found := false
	for _, name := range stats {
		s, err := p.stat(name)
		if err != nil || s.group != id {
			continue // it has exited, or is in another group
		}
		found = true
		u.CPU += s.cpu + s.children
		dir := filepath.Dir(name)
		u.Peak += p.peak(dir)
		u.Model += p.threads(dir, modelThread)
	}
	if !found {
		return u, fmt.Errorf("/proc shows no process of group %d", id)
	}
	return u, nil
}

// threads is the CPU time of the threads of that name.
func (p proc) threads(dir, name string) time.Duration {
	var sum time.Duration
	tasks, err := fs.Glob(p.root, dir+"/task/*/stat")
	if err != nil {
		return 0
	}
	for _, task := range tasks {
		if s, err := p.stat(task); err == nil && s.name == name {
			sum += s.cpu
		}
	}
	return sum
}

type stat struct {
	name          string
	group         int
	cpu, children time.Duration
}

// stat reads "pid (name) state ppid pgrp ... utime stime cutime cstime ...", where a name may hold anything.
func (p proc) stat(name string) (stat, error) {
	text, err := fs.ReadFile(p.root, name)
	if err != nil {
		return stat{}, err
	}
	from, to := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if from < 0 || to < from {
		return stat{}, fmt.Errorf("/proc/%s: no name in parentheses", name)
	}
	fields := bytes.Fields(text[to+1:])
	const group, user, system, childUser, childSystem = 2, 11, 12, 13, 14
	if len(fields) <= childSystem {
		return stat{}, fmt.Errorf("/proc/%s: %d fields after the name; want more than %d", name, len(fields), childSystem)
	}
	var numbers [childSystem + 1]int
	for _, i := range []int{group, user, system, childUser, childSystem} {
		if numbers[i], err = strconv.Atoi(string(fields[i])); err != nil {
			return stat{}, fmt.Errorf("/proc/%s: %w", name, err)
		}
	}
	return stat{
		name: string(text[from+1 : to]), group: numbers[group],
		cpu:      time.Duration(numbers[user]+numbers[system]) * tick,
		children: time.Duration(numbers[childUser]+numbers[childSystem]) * tick,
	}, nil
}

// peak is the peak resident set of a process, 0 where it has exited.
func (p proc) peak(dir string) int64 {
	status, err := fs.ReadFile(p.root, dir+"/status")
	if err != nil {
		return 0
	}
	peak, err := kibibytes(status, "VmHWM:")
	if err != nil {
		return 0
	}
	return peak
}

// Memory is the resident memory of a process in bytes.
type Memory struct {
	Anonymous int64 // heaps and stacks: what no file backs
	File      int64 // mapped files, which the kernel may drop
	Peak      int64 // maximum of their sum so far
}

// memory reads the memory of a live process.
func (p proc) memory(dir string) (m Memory, err error) {
	status, err := fs.ReadFile(p.root, dir+"/status")
	if err != nil {
		return m, err
	}
	for name, value := range map[string]*int64{"RssAnon:": &m.Anonymous, "RssFile:": &m.File, "VmHWM:": &m.Peak} {
		if *value, err = kibibytes(status, name); err != nil {
			return m, fmt.Errorf("/proc/%s/status: %w", dir, err)
		}
	}
	return m, nil
}

// kibibytes finds "name  1234 kB" in a status of /proc, in bytes.
func kibibytes(status []byte, name string) (int64, error) {
	for line := range bytes.Lines(status) {
		if fields := bytes.Fields(line); len(fields) == 3 && string(fields[0]) == name {
			n, err := strconv.ParseInt(string(fields[1]), 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("no line %s", name)
}

// machine is the CPU time that all processors together have spent on anything but idling and waiting.
func (p proc) machine() (time.Duration, error) {
	text, err := fs.ReadFile(p.root, "stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	fields := bytes.Fields(line) // cpu user nice system idle iowait irq softirq steal guest guest_nice
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return 0, fmt.Errorf("/proc/stat begins with %.80q", line)
	}
	var sum time.Duration
	for _, i := range []int{1, 2, 3, 6, 7, 8} {
		n, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}

// resetPeak resets the peak resident set of a child process, where the kernel permits it.
func resetPeak(pid int) {
	// Without it the peak is that since the start, which the first case has in any event.
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
	text, err := fs.ReadFile(p.root, "cpuinfo")
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
