//go:build !linux

package childproc

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Executable is the path of the running binary.
func Executable() (string, error) { return os.Executable() }

func childAttributes() *syscall.SysProcAttr { return nil }

// setLowestPriority is not supported on this system.
func setLowestPriority(int) error { return fmt.Errorf("lowest priority: %w", errors.ErrUnsupported) }

// memoryOf is not supported on this system.
func memoryOf(int) (held, peak int64, err error) { return 0, 0, errors.ErrUnsupported }
