//go:build !linux

package powercut

import (
	"errors"
	"fmt"
)

// Mount shows a disk to processes as a directory; only Linux has it.
type Mount struct{}

// Mount fails.
func (*Disk) Mount(string) (*Mount, error) {
	return nil, fmt.Errorf("FUSE: %w", errors.ErrUnsupported)
}

// Unmount does nothing.
func (*Mount) Unmount() error { return nil }
