package doctor

import (
	"fmt"
	"time"

	"assay/queue"
)

// embeddedSync judges how often the embedded server syncs; 0: before each acknowledgement.
func embeddedSync(interval time.Duration) []Finding {
	if interval > 0 {
		return []Finding{{"sync", Warning, fmt.Sprintf("--sync interval: a power failure loses the labels, responses and rewards that were acknowledged in the last %v", interval), "set --sync always"}}
	}
	return []Finding{{"sync", OK, "--sync always: what is acknowledged survives a power failure", ""}}
}

// externalSync judges how the servers of a cluster sync.
func externalSync(servers []queue.ServerSync) []Finding {
	const fix = "set jetstream { sync_interval: always } on each server"
	if len(servers) == 0 {
		return []Finding{{"sync", Warning, "the NATS servers do not report how they sync: without sync_interval: always, a power failure loses up to 2 minutes of what they acknowledged",
			fix + "; docs/nats.md (External servers) explains how to let assay read it"}}
	}
	var found []Finding
	for _, s := range servers {
		if !s.Always {
			found = append(found, Finding{"sync", Warning, fmt.Sprintf("NATS server %s syncs every %v: a power failure loses what it acknowledged since the last sync", s.Name, s.Interval), fix})
		}
	}
	if found == nil {
		return []Finding{{"sync", OK, fmt.Sprintf("all %d NATS servers sync before they acknowledge", len(servers)), ""}}
	}
	return found
}
