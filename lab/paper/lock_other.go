//go:build !unix

package paper

import "os"

// lock does nothing here: one process at a time may write results.
func lock(*os.File) (unlock func(), err error) { return func() {}, nil }
