package doctor

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// memory is what the service needs and what there is, in bytes.
type memory struct {
	limit    int64 // of the control group; 0: none
	machine  int64 // 0: unknown
	model    int64 // of one loaded version; 0: unknown
	versions int64 // loaded at the same time
	cache    int64 // of each version
	requests int64 // --request-memory
}

// processMemory is the memory of a process that serves the shipped model and has no requests, without the model
// (docs/how-to/size.md), in bytes.
const processMemory = 256 << 20

// readMachineMemory returns the memory of the machine in bytes, 0 if it is unknown.
func readMachineMemory(root fs.FS) int64 {
	for line := range strings.Lines(read(root, "proc/meminfo")) {
		if value, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kib << 10
		}
	}
	return 0
}

func (m memory) findings() []Finding {
	idle := processMemory + m.versions*(m.model+m.cache)
	need := idle + 2*m.requests
	detail := fmt.Sprintf("up to %s under load: %s for the process, %d x (%s for the model and %s for the cache), twice --request-memory (%s)",
		size(need), size(processMemory), m.versions, size(m.model), size(m.cache), size(m.requests))
	if m.model == 0 {
		detail = fmt.Sprintf("up to %s under load, without the model, whose size is unknown", size(need))
	}
	limit, of := m.machine, "the machine has %s"
	if m.limit > 0 && (limit == 0 || m.limit < limit) {
		limit, of = m.limit, "the limit of the control group is %s"
	}
	if limit == 0 {
		return []Finding{{"memory", OK, detail + "; the memory of the machine is unknown", ""}}
	}
	detail += "; " + fmt.Sprintf(of, size(limit))
	const fix = "raise the limit, or lower --request-memory or --cache-bytes; set GOMEMLIMIT to about half of the limit"
	switch {
	case idle > limit:
		return []Finding{{"memory", Error, detail, fix}}
	case need > limit:
		return []Finding{{"memory", Warning, detail + ": the kernel may kill the service under load", fix}}
	}
	return []Finding{{"memory", OK, detail, ""}}
}

// size formats a number of bytes with two or three significant digits.
func size(bytes int64) string {
	value, units := float64(bytes), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	unit := 0
	for value >= 1024 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	if value < 10 && unit > 0 {
		return fmt.Sprintf("%.1f %s", value, units[unit])
	}
	return fmt.Sprintf("%.0f %s", value, units[unit])
}
