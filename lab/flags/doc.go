// Package flags has the flags that several benchmarks share: the binary that is measured, the service that is started,
// and the texts and bags that it gets. It does not depend on what is measured of them.
package flags
