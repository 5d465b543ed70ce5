//go:build unix

package paper

import (
	"os"
	"syscall"
)

// lock waits until no other process holds the file. The lock ends with the process that holds it, however that ends.
func lock(f *os.File) (unlock func(), err error) {
	for {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return func() { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }, nil // closing the file does so as well
}
