//go:build !linux

package durable

import "errors"

// exchange is supported only on Linux.
func exchange(a, b string) error { return errors.ErrUnsupported }
