package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// service is the process under attack.
type service struct {
	cmd       *exec.Cmd
	exited    chan struct{} // closed when it has
	dir       string
	group     cgroup
	http, rpc string

	mu     sync.Mutex
	bodies map[string][]byte // of the attacks, built once
}

// body returns what build makes, which is built once: the attack is to cost the
// service time, not the machine that measures it.
func (p *service) body(name string, build func() []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bodies[name] == nil {
		p.bodies[name] = build()
	}
	return p.bodies[name]
}

// cgroup is a directory of the memory controller; "" is none.
type cgroup struct {
	dir     string
	unified bool // version 2
}

// ownCgroup is the memory cgroup of this process.
func ownCgroup() string {
	lines, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(lines)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(parts) == 3 && parts[1] == "memory":
			return filepath.Join("/sys/fs/cgroup/memory", parts[2])
		case len(parts) == 3 && parts[0] == "0" && exists("/sys/fs/cgroup/cgroup.controllers"):
			return filepath.Join("/sys/fs/cgroup", parts[2])
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
	return g, os.WriteFile(filepath.Join(g.dir, file), []byte(strconv.FormatInt(limit, 10)), 0o600)
}

func (g cgroup) read(file string) string {
	data, err := os.ReadFile(filepath.Join(g.dir, file))
	if err != nil {
		return "?"
	}
	return strings.TrimSpace(string(data))
}

func startService(ctx context.Context, s settings) (*service, error) {
	dir, err := os.MkdirTemp("", "hostile")
	if err != nil {
		return nil, err
	}
	p := &service{dir: dir, exited: make(chan struct{}), bodies: map[string][]byte{}}
	join := ""
	if p.group, err = newCgroup(s.cgroup, s.memory); err != nil {
		fmt.Fprintf(os.Stderr, "no memory cgroup, so that nothing limits the service: %v\n", err)
		p.group = cgroup{}
	} else {
		join = "echo $$ > " + filepath.Join(p.group.dir, "cgroup.procs") + " && "
	}
	ports, err := freePorts(ctx, 3)
	if err != nil {
		return nil, err
	}
	p.http, p.rpc = ports[0], ports[1]
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	args := []string{"-c", join + `exec "$0" "$@"`, s.assay, "serve", "--listen", p.http, "--grpc-listen", p.rpc,
		"--nats-listen", ports[2], "--data-dir", dir, "--no-train", "--log-format", "json"}
	p.cmd = exec.Command("sh", args...) //nolint:gosec,noctx // stopped by stop
	p.cmd.Stderr, p.cmd.Stdout = log, log
	p.cmd.Env = append(os.Environ(), "GOMEMLIMIT="+s.goMemory)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // its state says how it ended
	}()
	return p, nil
}

func freePorts(ctx context.Context, n int) (ports []string, err error) {
	var config net.ListenConfig
	for range n {
		l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().String())
	}
	return ports, nil
}

func (p *service) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.http+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		if response, err := http.DefaultClient.Do(r); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		if err := p.alive(); err != nil {
			return err
		}
		pause(ctx, 200*time.Millisecond)
	}
	return errors.New("the service is not ready within a minute; its log is in " + p.dir)
}

// pause returns after d, or when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// usage is the memory of the service, in MiB.
func (p *service) usage() string {
	status, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "status"))
	out := ""
	for line := range strings.Lines(string(status)) {
		if name, value, _ := strings.Cut(line, ":"); name == "VmHWM" || name == "VmRSS" {
			kib, _ := strconv.Atoi(strings.Fields(value)[0])
			out += fmt.Sprintf("%s %d MiB  ", name, kib>>10)
		}
	}
	switch {
	case p.group.dir == "":
	case p.group.unified:
		out += "cgroup peak " + p.group.read("memory.peak") + " bytes, events " + strings.ReplaceAll(p.group.read("memory.events"), "\n", ", ")
	default:
		out += "cgroup peak " + p.group.read("memory.max_usage_in_bytes") + " bytes, limit reached " + p.group.read("memory.failcnt") + " times"
	}
	if log, err := os.Stat(filepath.Join(p.dir, "log")); err == nil {
		out += fmt.Sprintf("  log %d KiB", log.Size()>>10)
	}
	return out
}

func (p *service) alive() error {
	select {
	case <-p.exited:
		return fmt.Errorf("the service died (%v); its log is in %s", p.cmd.ProcessState, p.dir)
	default:
		return nil
	}
}

// stop ends the service and removes its data, unless the log is to be read.
func (p *service) stop(keep bool) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.exited
	if p.group.dir != "" {
		_ = os.Remove(p.group.dir)
	}
	if !keep {
		_ = os.RemoveAll(p.dir)
	}
}
