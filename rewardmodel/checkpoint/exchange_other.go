//go:build !linux

package checkpoint

import "errors"

// exchange is for Linux only.
func exchange(a, b string) error { return errors.ErrUnsupported }
