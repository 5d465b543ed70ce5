//go:build !linux

package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

func ownProgram() (string, error) { return os.Executable() }

func childAttributes() *syscall.SysProcAttr { return nil }

// yieldCPU is not known for this system.
func yieldCPU(int) error { return fmt.Errorf("lowest priority: %w", errors.ErrUnsupported) }

// memoryOf is not known for this system.
func memoryOf(int) (held, peak int64, err error) { return 0, 0, errors.ErrUnsupported }
