package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// limits are those of the control groups of this process; 0: none.
type limits struct {
	cpus   float64 // CPU time per time
	memory int64   // bytes
}

// readLimits reads the limits of the control groups of a process, of version 1, 2 or both. root is the root of the file
// system. Without control groups there are no limits.
func readLimits(root fs.FS) (l limits, err error) {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return l, fmt.Errorf("control groups: %w", err)
	}
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // number:controllers:path
		if len(fields) == 3 {
			l.readGroup(root, fields[1], fields[2])
		}
	}
	return l, nil
}

// readGroup reads the limits of a group and of the groups that contain it, the lowest of which applies. In a container,
// the path may be that of the host: what exists of it is then only the root.
func (l *limits) readGroup(root fs.FS, controllers, group string) {
	for _, mount := range mounts(controllers) {
		for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
			at := path.Join(mount, dir)
			switch {
			case controllers == "":
				quota, period, _ := strings.Cut(read(root, at+"/cpu.max"), " ")
				l.limitCPUs(quota, period)
				l.limitMemory(read(root, at+"/memory.max"))
			case hasController(controllers, "cpu"):
				l.limitCPUs(read(root, at+"/cpu.cfs_quota_us"), read(root, at+"/cpu.cfs_period_us"))
			case hasController(controllers, "memory"):
				l.limitMemory(read(root, at+"/memory.limit_in_bytes"))
			}
			if dir == "/" {
				break
			}
		}
	}
}

// mounts are where the controllers may be mounted: those of version 2 have no names.
func mounts(controllers string) []string {
	if controllers == "" {
		return []string{"sys/fs/cgroup", "sys/fs/cgroup/unified"}
	}
	names := []string{"sys/fs/cgroup/" + controllers}
	if strings.Contains(controllers, ",") {
		for name := range strings.SplitSeq(controllers, ",") {
			names = append(names, "sys/fs/cgroup/"+name)
		}
	}
	return names
}

func hasController(controllers, name string) bool {
	for c := range strings.SplitSeq(controllers, ",") {
		if c == name {
			return true
		}
	}
	return false
}

// limitCPUs applies a quota of CPU time per period, in microseconds; "max", -1 and "" are no limit.
func (l *limits) limitCPUs(quota, period string) {
	q, errQ := strconv.ParseFloat(quota, 64)
	p, errP := strconv.ParseFloat(period, 64)
	if errQ != nil || errP != nil || q <= 0 || p <= 0 {
		return
	}
	if cpus := q / p; l.cpus == 0 || cpus < l.cpus {
		l.cpus = cpus
	}
}

// unlimitedMemory is below the number that version 1 has for no limit: the largest multiple of the page size.
const unlimitedMemory = 1 << 62

// limitMemory applies a limit in bytes; "max" and "" are no limit.
func (l *limits) limitMemory(bytes string) {
	n, err := strconv.ParseInt(bytes, 10, 64)
	if err == nil && n > 0 && n < unlimitedMemory && (l.memory == 0 || n < l.memory) {
		l.memory = n
	}
}

// read returns the content of a small file, "" if it cannot be read.
func read(root fs.FS, name string) string {
	content, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}
