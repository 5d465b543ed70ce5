// Package nativefault lets a process end in order after a fault in code that is not Go: an invalid access, an abort, an
// invalid instruction. Go would end it at once, with every request in flight.
//
// The thread with the fault is suspended, since it cannot continue; what waits for it must be told. The rest of the process
// runs on, for at most Limit. It should only refuse, store what it has acknowledged, and exit: the fault may have damaged any
// memory. Faults in Go code are panics as ever.
package nativefault

// #include "handler.h"
import "C"

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Limit is for how long a process lives after a fault. Then it dies of it, as it would have without Watch.
const Limit = 5 * time.Second

// FaultError is a signal that was raised outside Go code.
type FaultError struct {
	Signal  syscall.Signal
	Address uintptr // that was accessed; 0 for an abort
	Place   string  // file, offset and symbol of the instruction, as far as they are known
}

// Error names all of it.
func (f *FaultError) Error() string {
	text := "a fault in native code: " + unix.SignalName(f.Signal)
	if f.Signal == unix.SIGSEGV || f.Signal == unix.SIGBUS {
		text += fmt.Sprintf(" at address %#x", f.Address)
	}
	if f.Place != "" {
		text += ", in " + f.Place
	}
	return text
}

// Watch calls report in a goroutine at the first fault of the process, or now if there was one. stop ends that, and waits for a
// report in progress.
func Watch(report func(*FaultError)) (stop func(), err error) {
	fd := int(C.watch_faults(C.int(Limit / time.Second)))
	if fd < 0 {
		return nil, fmt.Errorf("handle faults in native code: %w", syscall.Errno(-fd))
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("handle faults in native code: %w", err)
	}
	notice := os.NewFile(uintptr(own), "faults in native code") // non-blocking, as the descriptor that it duplicates
	raw, err := notice.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("handle faults in native code: %w", err)
	}
	var reports sync.WaitGroup
	reports.Go(func() {
		if raw.Read(happened) == nil {
			report(first())
		}
	})
	return func() {
		_ = notice.Close() // ends Read
		reports.Wait()
	}, nil
}

// happened reports whether there is something to read, and leaves it there for others.
func happened(fd uintptr) bool {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n > 0
}

func first() *FaultError {
	f := C.first_fault()
	var place [512]C.char
	C.place_of(f.pc, &place[0], C.int(len(place)))
	return &FaultError{Signal: syscall.Signal(f.signal), Address: uintptr(f.address), Place: C.GoString(&place[0])}
}
