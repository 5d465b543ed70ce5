package clockskew

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// code is the function that replaces clock_gettime. It asks the kernel, and adds the offset after its end to the seconds of
// the two wall clocks.
var code = []byte{
	0xb8, 228, 0, 0, 0, // mov eax, SYS_clock_gettime
	0x0f, 0x05, //         syscall
	0x85, 0xc0, //         test eax, eax
	0x75, 19, //           jnz end
	0x85, 0xff, //         test edi, edi: CLOCK_REALTIME
	0x74, 5, //            jz add
	0x83, 0xff, 5, //      cmp edi, CLOCK_REALTIME_COARSE
	0x75, 10, //           jne end
	// add:
	0x48, 0x8b, 0x0d, 5, 0, 0, 0, // mov rcx, [offset]
	0x48, 0x01, 0x0e, //   add [rsi], rcx
	// end:
	0xc3, // ret
	0x90, // to a multiple of 8; offset:
}

// offsetSize is the size of the offset, in seconds, after the code.
const offsetSize = 8

// stopTimeout bounds how long a process may take to stop, on a busy machine.
const stopTimeout = 10 * time.Second

// Set makes the wall clock of a process differ from that of the machine, by whole seconds. The first time, it suspends the
// process for some milliseconds. The caller must be permitted to trace the process, as a parent is unless the system forbids it.
func Set(pid int, offset time.Duration) error {
	if offset%time.Second != 0 {
		return fmt.Errorf("clockskew: %v is not in whole seconds", offset)
	}
	if err := set(pid, int64(offset/time.Second)); err != nil {
		return fmt.Errorf("clockskew: process %d: %w", pid, err)
	}
	return nil
}

func set(pid int, seconds int64) (err error) {
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	at, err := find(pid, memory)
	if err != nil {
		return err
	}
	offset := binary.LittleEndian.AppendUint64(nil, uint64(seconds))
	present := make([]byte, len(code))
	if _, err := memory.ReadAt(present, int64(at.begin)); err != nil {
		return err
	}
	if bytes.Equal(present, code) {
		_, err = memory.WriteAt(offset, int64(at.begin)+int64(len(code)))
		return err
	}
	defer func() { err = errors.Join(err, syscall.Kill(pid, syscall.SIGCONT)) }()
	if err := stopOutside(pid, at); err != nil {
		return err
	}
	_, err = memory.WriteAt(append(slices.Clone(code), offset...), int64(at.begin))
	return err
}

// function is where a function is in the memory of a process.
type function struct{ begin, end uint64 }

// find finds clock_gettime in the vDSO of a process.
func find(pid int, memory *os.File) (function, error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return function{}, err
	}
	maps, err := process.ProcMaps()
	if err != nil {
		return function{}, err
	}
	i := slices.IndexFunc(maps, func(m *procfs.ProcMap) bool { return m.Pathname == "[vdso]" })
	if i < 0 {
		return function{}, errors.New("it has no vDSO")
	}
	image := make([]byte, maps[i].EndAddr-maps[i].StartAddr)
	if _, err := memory.ReadAt(image, int64(maps[i].StartAddr)); err != nil {
		return function{}, err
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return function{}, fmt.Errorf("vDSO: %w", err)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return function{}, fmt.Errorf("vDSO: %w", err)
	}
	for _, symbol := range symbols {
		if symbol.Name != "__vdso_clock_gettime" {
			continue
		}
		if symbol.Size < uint64(len(code)+offsetSize) {
			return function{}, fmt.Errorf("clock_gettime of the vDSO has only %d bytes", symbol.Size)
		}
		begin := uint64(maps[i].StartAddr) + symbol.Value
		return function{begin: begin, end: begin + symbol.Size}, nil
	}
	return function{}, errors.New("its vDSO has no clock_gettime")
}

// stopOutside suspends a process while none of its threads is in the function.
func stopOutside(pid int, at function) error {
	for began := time.Now(); time.Since(began) < stopTimeout; {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			return err
		}
		outside, err := stopped(pid, at)
		if outside || err != nil {
			return err
		}
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			return err
		}
	}
	return errors.New("it does not stop outside of clock_gettime")
}

// stopped waits until all threads are suspended, and reports whether none of them is in the function.
func stopped(pid int, at function) (outside bool, err error) {
	for began := time.Now(); time.Since(began) < stopTimeout; <-time.After(time.Millisecond) {
		threads, err := procfs.AllThreads(pid)
		if err != nil {
			return false, err
		}
		running := slices.ContainsFunc(threads, func(thread procfs.Proc) bool {
			stat, err := thread.Stat()
			return err == nil && stat.State != "T" // an error means that it has ended
		})
		if running {
			continue
		}
		for _, thread := range threads {
			if inside, err := executes(pid, thread.PID, at); inside || err != nil {
				return false, err
			}
		}
		return true, nil
	}
	return false, errors.New("it does not stop")
}

// executes reports whether a thread that is suspended executes the function.
func executes(pid, thread int, at function) (bool, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/syscall", pid, thread))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return false, nil // it has ended
	} else if err != nil {
		return false, err
	}
	fields := strings.Fields(string(text)) // of the system call or -1, ..., the stack pointer, the program counter
	counter, err := strconv.ParseUint(fields[len(fields)-1], 0, 64)
	if err != nil {
		return false, fmt.Errorf("thread %d: %q has no program counter", thread, text)
	}
	return at.begin <= counter && counter < at.end, nil
}
