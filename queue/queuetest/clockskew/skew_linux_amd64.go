package clockskew

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/procfs"

	"assay/queue/queuetest/procmem"
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

func set(pid int, seconds int64) error {
	process, err := procmem.Open(pid)
	if err != nil {
		return err
	}
	defer process.Close()
	at, err := find(process)
	if err != nil {
		return err
	}
	offset := binary.LittleEndian.AppendUint64(nil, uint64(seconds))
	present := make([]byte, len(code))
	if _, err := process.ReadAt(present, int64(at.begin)); err != nil {
		return err
	}
	if bytes.Equal(present, code) {
		_, err = process.WriteAt(offset, int64(at.begin)+int64(len(code)))
		return err
	}
	return process.Suspended(func() (bool, error) {
		if inside, err := process.Executes(at.begin, at.end); inside || err != nil {
			return false, err
		}
		_, err = process.WriteAt(append(slices.Clone(code), offset...), int64(at.begin))
		return true, err
	})
}

// function is where a function is in the memory of a process.
type function struct{ begin, end uint64 }

// find finds clock_gettime in the vDSO of a process.
func find(process *procmem.Process) (function, error) {
	maps, err := process.Maps()
	if err != nil {
		return function{}, err
	}
	i := slices.IndexFunc(maps, func(m *procfs.ProcMap) bool { return m.Pathname == "[vdso]" })
	if i < 0 {
		return function{}, errors.New("it has no vDSO")
	}
	image := make([]byte, maps[i].EndAddr-maps[i].StartAddr)
	if _, err := process.ReadAt(image, int64(maps[i].StartAddr)); err != nil {
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
