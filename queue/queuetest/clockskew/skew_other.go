//go:build !linux || !amd64

package clockskew

import (
	"errors"
	"fmt"
	"time"
)

// Set fails: only Linux on x86-64 has it.
func Set(int, time.Duration) error { return fmt.Errorf("clockskew: %w", errors.ErrUnsupported) }
