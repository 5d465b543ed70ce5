// Package clockskew changes the wall clock that a running process reads, in the manner of the TimeChaos of Chaos Mesh: it
// replaces the vDSO's clock_gettime, which the kernel maps into every process, by one that adds an offset to the time of
// the machine. The clock of the machine and of other processes stays as it is, and so does the monotonic clock.
//
// It works for processes that are statically linked, as those of Go, whose own libraries read the clock in the same way. A
// process that it starts has the clock of the machine.
package clockskew
