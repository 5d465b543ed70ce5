package hostile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"

	"assay/lab/bench"
)

// victim is the service under attack.
type victim struct {
	*bench.Service
	rpc   string // address of its gRPC API
	group cgroup

	mu     sync.Mutex
	bodies map[string][]byte // of the attacks, built once
}

// body returns the result of build, which is called once per name: an attack should cost the service time, not the
// machine that measures it.
func (p *victim) body(name string, build func() []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bodies[name] == nil {
		p.bodies[name] = build()
	}
	return p.bodies[name]
}

// startVictim starts the service in a new memory cgroup, or without one where that is not permitted.
func startVictim(ctx context.Context, s Settings) (*victim, error) {
	port, err := bench.FreePort()
	if err != nil {
		return nil, err
	}
	p := &victim{rpc: fmt.Sprintf("127.0.0.1:%d", port), bodies: map[string][]byte{}}
	if p.group, err = newCgroup(s.Cgroup, s.Memory); err != nil {
		s.Notify(fmt.Sprintf("no memory cgroup, so that the memory of the service is not limited: %v", err))
	}
	p.Service, err = bench.StartService(ctx, bench.ServiceOptions{
		Binary: s.Assay, Timeout: time.Minute, Cgroup: p.group.dir, Env: []string{"GOMEMLIMIT=" + s.GoMemory},
		Flags: []string{"--grpc-listen", p.rpc, "--request-memory", strconv.FormatInt(s.RequestMemory, 10)},
	})
	if err != nil {
		p.group.remove()
		return nil, err
	}
	return p, nil
}

// usage describes the memory of the service.
func (p *victim) usage() string {
	out := "exited"
	if m, err := p.Memory(); err == nil {
		out = fmt.Sprintf("peak %d MiB, now %d MiB anonymous and %d MiB of files", m.Peak>>20, m.Anonymous>>20, m.File>>20)
	}
	out += p.group.usage()
	if log, err := p.LogBytes(); err == nil {
		out += fmt.Sprintf(", log %d KiB", log>>10)
	}
	return out
}

// alive returns an error where the service has exited.
func (p *victim) alive() error {
	select {
	case <-p.Done():
		return p.Err()
	default:
		return nil
	}
}

// cgroup is a directory of the memory controller; the zero value is none.
type cgroup struct {
	dir     string
	unified bool // version 2
}

// OwnCgroup returns the directory of the memory cgroup of this process, "" where there is none.
func OwnCgroup() string {
	process, err := procfs.Self()
	if err != nil {
		return ""
	}
	groups, err := process.Cgroups()
	if err != nil {
		return ""
	}
	for _, g := range groups {
		switch {
		case slices.Contains(g.Controllers, "memory"):
			return filepath.Join("/sys/fs/cgroup/memory", g.Path)
		case g.HierarchyID == 0 && exists("/sys/fs/cgroup/cgroup.controllers"):
			return filepath.Join("/sys/fs/cgroup", g.Path)
		}
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func newCgroup(parent string, limit int64) (cgroup, error) {
	g := cgroup{dir: filepath.Join(parent, "assay-hostile-"+strconv.Itoa(os.Getpid())), unified: exists(filepath.Join(parent, "cgroup.controllers"))}
	if err := os.Mkdir(g.dir, 0o755); err != nil { //nolint:gosec // as the kernel makes them
		return cgroup{}, err
	}
	file := "memory.limit_in_bytes"
	if g.unified {
		file = "memory.max"
	}
	if err := os.WriteFile(filepath.Join(g.dir, file), []byte(strconv.FormatInt(limit, 10)), 0o600); err != nil {
		g.remove()
		return cgroup{}, err
	}
	return g, nil
}

// remove removes the cgroup, which must have no process.
func (g cgroup) remove() {
	if g.dir != "" {
		_ = os.Remove(g.dir) // an empty cgroup that stays does no harm
	}
}

// usage describes the accounting of the cgroup.
func (g cgroup) usage() string {
	switch {
	case g.dir == "":
		return ""
	case g.unified:
		return ", cgroup peak " + g.read("memory.peak") + " bytes, events " + strings.ReplaceAll(g.read("memory.events"), "\n", ", ")
	}
	return ", cgroup peak " + g.read("memory.max_usage_in_bytes") + " bytes, limit reached " + g.read("memory.failcnt") + " times"
}

func (g cgroup) read(file string) string {
	data, err := os.ReadFile(filepath.Join(g.dir, file))
	if err != nil {
		return "?"
	}
	return strings.TrimSpace(string(data))
}
