package cli

import (
	"time"

	"assay/queue/embedded"
)

// SyncMode is when an embedded server flushes to disk: always or interval.
type SyncMode string

// Interval is how often an embedded server flushes to disk; 0: before each acknowledgement.
func (m SyncMode) Interval() time.Duration {
	if m == "interval" {
		return embedded.RelaxedSync
	}
	return 0
}
