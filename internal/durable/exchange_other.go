//go:build !linux

package durable

import "errors"

// exchange is for Linux only.
func exchange(a, b string) error { return errors.ErrUnsupported }
