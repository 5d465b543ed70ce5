// Package procmem reads and writes the memory of running processes on Linux, for tests that inject what no system call
// does: corrupted memory, and code that was replaced. The caller must be permitted to trace the process, as a parent is unless
// the system forbids it.
package procmem
