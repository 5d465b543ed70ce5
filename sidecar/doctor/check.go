package doctor

import (
	"context"
	"fmt"
	"iter"
	"time"
)

// Check examines one area. Run may return findings of several names, since one look can tell about more than one area:
// the server's reply includes its clock.
type Check struct {
	Name    string
	Timeout time.Duration // after which Run is abandoned
	Run     func(ctx context.Context) []Finding
}

// Run runs the checks in order, all of them whatever they find, and yields their findings, until ctx ends.
func Run(ctx context.Context, checks []Check) iter.Seq[Finding] {
	return func(yield func(Finding) bool) {
		for _, c := range checks {
			found := c.run(ctx)
			if ctx.Err() != nil {
				return
			}
			for _, f := range found {
				if !yield(f) {
					return
				}
			}
		}
	}
}

// run runs a check in a goroutine that it abandons after the timeout: a system call on a network file system that does
// not respond cannot be canceled, and the process ends soon.
func (c Check) run(ctx context.Context) []Finding {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("no result after %v", c.Timeout))
	defer cancel()
	result := make(chan []Finding, 1)
	go func() { result <- c.Run(ctx) }()
	select {
	case findings := <-result:
		return findings
	case <-ctx.Done():
	}
	// A check that obeys its context has a better reason.
	select {
	case findings := <-result:
		return findings
	case <-time.After(grace):
		return []Finding{{c.Name, Error, context.Cause(ctx).Error(), "find out what does not respond: a disk, a network file system or a server"}}
	}
}

// grace is the time that a check has to return after its context has ended.
const grace = time.Second
