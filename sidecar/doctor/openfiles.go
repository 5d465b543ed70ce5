package doctor

import (
	"fmt"
	"math"
)

// fewFiles is a limit that a busy service can reach: each connection of a client needs a file, and each stream several.
const fewFiles = 4096

// openFiles judges the limit of open files of the process.
func openFiles(limit uint64) []Finding {
	switch {
	case limit > math.MaxInt32:
		return []Finding{{"files", OK, "no limit of open files", ""}}
	case limit < fewFiles:
		return []Finding{{"files", Warning, fmt.Sprintf("at most %d open files: each connection of a client needs one, and each stream several", limit),
			"raise the limit to 65536: ulimit -n, LimitNOFILE= of systemd, or the limits of the container runtime"}}
	}
	return []Finding{{"files", OK, fmt.Sprintf("at most %d open files", limit), ""}}
}
