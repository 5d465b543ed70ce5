package cli

import (
	"time"

	"assay/queue"
)

// SyncMode is when an embedded server flushes to disk: always or interval.
type SyncMode string

func (m SyncMode) Interval() time.Duration {
	if m == "interval" {
		return queue.RelaxedSync
	}
	return 0
}
