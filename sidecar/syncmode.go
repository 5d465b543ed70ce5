package main

import (
	"time"

	"assay/queue"
)

// syncMode is when an embedded server flushes to disk: always or interval.
type syncMode string

func (m syncMode) interval() time.Duration {
	if m == "interval" {
		return queue.RelaxedSync
	}
	return 0
}
