package grpcserver

import (
	"sync/atomic"
	"time"
)

// instant is a time that one goroutine sets and others read. It is relative to a time
// with a monotonic clock, so that a change of the wall clock is no delay of a client.
type instant struct {
	base  time.Time
	after atomic.Int64 // nanoseconds after base; 0: not set
}

func (i *instant) sinceBase() int64 { return max(1, int64(time.Since(i.base))) }

// set sets the time to now.
func (i *instant) set() { i.after.Store(i.sinceBase()) }

// setOnce sets the time to now if it is not set.
func (i *instant) setOnce() { i.after.CompareAndSwap(0, i.sinceBase()) }

func (i *instant) clear() { i.after.Store(0) }

// get returns the time, if it is set.
func (i *instant) get() (at time.Time, set bool) {
	after := i.after.Load()
	return i.base.Add(time.Duration(after)), after != 0
}
