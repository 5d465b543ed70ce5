package procmem

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// stopTimeout bounds how long a process may take to stop, on a busy machine.
const stopTimeout = 10 * time.Second

// Process is the memory of a process. Addresses are those of the process.
type Process struct {
	*os.File
	pid int
}

// Open opens the memory of a process.
func Open(pid int) (*Process, error) {
	file, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &Process{file, pid}, nil
}

// Maps returns what is mapped into the memory.
func (p *Process) Maps() ([]*procfs.ProcMap, error) {
	process, err := procfs.NewProc(p.pid)
	if err != nil {
		return nil, err
	}
	return process.ProcMaps()
}

// Suspended calls f while the process is suspended. It calls f again, after the process has run in between, while f returns
// false and no error.
func (p *Process) Suspended(f func() (bool, error)) (err error) {
	defer func() { err = errors.Join(err, syscall.Kill(p.pid, syscall.SIGCONT)) }()
	for began := time.Now(); time.Since(began) < stopTimeout; {
		if err := p.suspend(); err != nil {
			return err
		}
		if done, err := f(); done || err != nil {
			return err
		}
		if err := syscall.Kill(p.pid, syscall.SIGCONT); err != nil {
			return err
		}
	}
	return fmt.Errorf("process %d does not stop at a good moment", p.pid)
}

// suspend returns when all threads are suspended.
func (p *Process) suspend() error {
	if err := syscall.Kill(p.pid, syscall.SIGSTOP); err != nil {
		return err
	}
	for began := time.Now(); time.Since(began) < stopTimeout; <-time.After(time.Millisecond) {
		threads, err := procfs.AllThreads(p.pid)
		if err != nil {
			return err
		}
		running := slices.ContainsFunc(threads, func(thread procfs.Proc) bool {
			stat, err := thread.Stat()
			return err == nil && stat.State != "T" // an error means that it has ended
		})
		if !running {
			return nil
		}
	}
	return fmt.Errorf("process %d does not stop", p.pid)
}

// Executes reports whether a thread of the suspended process executes code from begin to end, which is excluded.
func (p *Process) Executes(begin, end uint64) (bool, error) {
	threads, err := procfs.AllThreads(p.pid)
	if err != nil {
		return false, err
	}
	for _, thread := range threads {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/syscall", p.pid, thread.PID))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		} else if err != nil {
			return false, err
		}
		fields := strings.Fields(string(text)) // of the system call or -1, ..., the stack pointer, the program counter
		counter, err := strconv.ParseUint(fields[len(fields)-1], 0, 64)
		if err != nil {
			return false, fmt.Errorf("thread %d: %q has no program counter", thread.PID, text)
		}
		if begin <= counter && counter < end {
			return true, nil
		}
	}
	return false, nil
}

// Find returns where the writable memory that the process shares with no other one has some bytes, which must be in one
// mapping.
func (p *Process) Find(data []byte) (at []int64, err error) {
	maps, err := p.Maps()
	if err != nil {
		return nil, err
	}
	for _, m := range maps {
		if !m.Perms.Write || !m.Perms.Read || m.Perms.Shared {
			continue
		}
		content := make([]byte, m.EndAddr-m.StartAddr)
		if _, err := p.ReadAt(content, int64(m.StartAddr)); err != nil {
			continue // a guard page, or a device
		}
		for from := 0; ; {
			i := bytes.Index(content[from:], data)
			if i < 0 {
				break
			}
			at = append(at, int64(m.StartAddr)+int64(from+i))
			from += i + len(data)
		}
	}
	return at, nil
}

// Function returns where the code of a function is that a library exports, by the beginning of its name in the symbol table,
// which only it must have.
func (p *Process) Function(library, name string) (begin, end uint64, err error) {
	maps, err := p.Maps()
	if err != nil {
		return 0, 0, err
	}
	i := slices.IndexFunc(maps, func(m *procfs.ProcMap) bool { return m.Offset == 0 && filepath.Base(m.Pathname) == library })
	if i < 0 {
		return 0, 0, fmt.Errorf("process %d does not have %s", p.pid, library)
	}
	file, err := elf.Open(maps[i].Pathname)
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, 0, err
	}
	found := 0
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && strings.HasPrefix(s.Name, name) {
			begin = uint64(maps[i].StartAddr) + s.Value // its first segment begins at 0
			end = begin + s.Size
			found++
		}
	}
	if found != 1 {
		return 0, 0, fmt.Errorf("%s has %d functions %s", library, found, name)
	}
	return begin, end, nil
}
