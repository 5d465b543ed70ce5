package chaos_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"assay/lab/chaos/powercut"
	"assay/queue/queuetest/clockskew"
	"assay/sidecar/processtest"
)

// life is one run of a process.
type life struct {
	mu      sync.Mutex
	ended   bool
	changed int // how often its model began or ceased to fail
}

func (l *life) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

// over reports whether the process has ended, or is about to.
func (l *life) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// change is called when the model begins to fail, and when it ceases to.
func (l *life) change() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed++
}

func (l *life) changes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// failedSince reports whether the model has failed, or the process has ended, since there were some changes.
func (l *life) failedSince(changes int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended || changes%2 == 1 || l.changed > changes
}

// replica is an assay serve that is started again and again.
type replica struct {
	t     *testing.T
	flags []string

	mu      sync.Mutex
	process *processtest.Process
	at      address // no life: it is down
	logs    []string
	deaths  int
}

// startTimeout is how long a start may take: long, since the machine may be busy.
const startTimeout = 3 * time.Minute

// start starts the process. It reports false if it ended instead of becoming ready.
func (r *replica) start() bool {
	r.t.Helper()
	p := processtest.Start(r.t, r.flags...).AwaitWithin(r.t, startTimeout)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.process = p
	if p.Ready.HTTP == "" {
		r.logs = append(r.logs, p.Log...)
		return false
	}
	r.at = address{http: p.Ready.HTTP, nats: p.Ready.NATS, life: &life{}}
	return true
}

// down marks the process as about to end.
func (r *replica) down() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.life != nil {
		r.at.life.end()
	}
	r.at = address{}
}

// kill is kill -9.
func (r *replica) kill() {
	r.down()
	r.process.Kill()
	r.keepLog()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deaths++
}

func (r *replica) died() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.deaths
}

// end kills the process if it runs.
func (r *replica) end() {
	if _, ok := r.now(); ok {
		r.kill()
	}
}

func (r *replica) keepLog() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logs = append(r.logs, r.process.Log...)
}

// terminate is SIGTERM.
func (r *replica) terminate() {
	r.t.Helper()
	r.down()
	r.process.Signal(r.t)
	require.Zero(r.t, r.process.Wait(r.t), "exit code")
	r.keepLog()
}

func (r *replica) signal(s syscall.Signal) {
	r.t.Helper()
	require.NoError(r.t, r.process.Cmd.Process.Signal(s))
}

// crash sends SIGSEGV to one of the threads of the process, which may be in Go, in libtorch or in the kernel. The Go runtime
// ends the process as for an invalid access, with the stacks of all goroutines.
func (r *replica) crash(rng *rand.Rand) {
	r.t.Helper()
	r.down()
	pid := r.process.Cmd.Process.Pid
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	require.NoError(r.t, err)
	rng.Shuffle(len(threads), func(i, j int) { threads[i], threads[j] = threads[j], threads[i] })
	require.True(r.t, slices.ContainsFunc(threads, func(thread os.DirEntry) bool { // the first that has not ended meanwhile
		id, err := strconv.Atoi(thread.Name())
		return err == nil && unix.Tgkill(pid, id, unix.SIGSEGV) == nil
	}))
	require.NotZero(r.t, r.process.Wait(r.t), "exit code")
	require.Contains(r.t, r.process.Output(), "SIGSEGV: segmentation violation")
	r.keepLog()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deaths++
}

// skew sets the wall clock of the process, until the process ends.
func (r *replica) skew(offset time.Duration) {
	r.t.Helper()
	require.NoError(r.t, clockskew.Set(r.process.Cmd.Process.Pid, offset))
}

// exhaust denies the process more memory, and waits for its end, but not for long: it may need none.
func (r *replica) exhaust(exhaustion time.Duration) {
	r.t.Helper()
	r.down()
	pid := r.process.Cmd.Process.Pid
	require.NoError(r.t, unix.Prlimit(pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}, nil))
	select {
	case <-r.process.Done:
	case <-time.After(exhaustion):
	}
	r.kill()
}

// children are the processes that train.
func (r *replica) children() []int { return processtest.ChildrenOf(r.t, r.process.Cmd.Process.Pid) }

func (r *replica) now() (address, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at, r.at.life != nil
}

// reports ends the process and returns the warnings and errors in the logs of all of its lives.
func (r *replica) reports() (out []string) {
	r.end()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.logs {
		if strings.Contains(line, `"level":"warn"`) || strings.Contains(line, `"level":"error"`) || strings.HasPrefix(line, "assay: ") {
			out = append(out, line)
		}
	}
	return out
}

// single is one service with its embedded NATS server.
type single struct {
	t       *testing.T
	of      profile
	disk    *powercut.Disk // nil: a directory
	mount   *powercut.Mount
	dir     string
	replica *replica
	weights []byte   // of the model, as in memory
	files   []string // that were damaged
	refusal []string
}

// exhaustion is how long a process without memory, or with broken code, may take to notice.
const exhaustion = 3 * time.Second

func newSingle(t *testing.T, models *models, s schedule) *single {
	t.Helper()
	sys := &single{t: t, of: s.of, dir: t.TempDir(), weights: models.weights}
	if s.of.disk {
		sys.disk = powercut.NewDisk()
		sys.attach()
		t.Cleanup(func() {
			if sys.mount != nil {
				require.NoError(t, sys.mount.Unmount())
			}
		})
	}
	flags := append(processtest.Serving(models.dirs[0], filepath.Join(sys.dir, "data")), serviceFlags(s)...)
	sys.replica = &replica{t: t, flags: flags}
	t.Cleanup(func() { // before the directory is unmounted
		if sys.replica.process != nil {
			sys.replica.process.Kill()
		}
	})
	return sys
}

// serviceFlags are the flags of a schedule. Half of the schedules have no cache, so that every request needs the model.
func serviceFlags(s schedule) []string {
	flags := []string{"--log-format", "json", "--train-auto=false"}
	if s.of.training {
		flags = []string{"--log-format", "json", "--train-min-bags", "30", "--train-min-each", "5", "--holdout-min", "2",
			"--train-max-bags", "60", "--train-cooldown", "0s", "--train-drift", "0", "--train-disagreement", "0", "--train-epochs", "2",
			"--train-lr", "3e-3", "--train-threads", "1", "--gate-margin", "0.9", "--gate-confidence", "0.5", "--gate-allow-shift"}
	}
	if s.seed%2 == 0 {
		flags = append(flags, "--cache-bytes", "0")
	}
	return append(flags, strings.Fields(*serve)...)
}

func (s *single) attach() {
	s.t.Helper()
	var err error
	s.mount, err = s.disk.Mount(s.dir)
	require.NoError(s.t, err)
}

func (s *single) detach() {
	s.t.Helper()
	require.NoError(s.t, s.mount.Unmount())
	s.mount = nil
}

func (s *single) begin() {
	s.t.Helper()
	require.True(s.t, s.replica.start(), "it did not start")
}

// again starts the service after a fault.
func (s *single) again() (ended bool) {
	s.t.Helper()
	if s.replica.start() {
		return false
	}
	lines := s.replica.process.Log
	require.True(s.t, s.of.damage, "it did not start again:\n%s", strings.Join(lines, "\n"))
	require.NotEmpty(s.t, lines, "it did not start again, and does not say why")
	s.refusal = lines
	return true
}

func (s *single) pick(*rand.Rand) (address, bool) { return s.replica.now() }
func (s *single) refused() []string               { return s.refusal }
func (s *single) damaged() []string               { return s.files }
func (s *single) deaths() int                     { return s.replica.died() }
func (s *single) reports() []string               { return s.replica.reports() }

func (s *single) output() []string {
	s.replica.end()
	return tail(s.replica.logs)
}

// tail is what to show of a log.
func tail(lines []string) []string {
	lines = slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.Contains(line, `"message":"request"`) })
	return lines[max(0, len(lines)-40):]
}

func (s *single) inject(step step, rng *rand.Rand) (ended bool) {
	s.t.Helper()
	switch step.fault {
	case kill:
		s.replica.kill()
	case segv:
		s.replica.crash(rng)
	case terminate:
		s.replica.terminate()
	case noMemory:
		s.replica.exhaust(exhaustion)
	case badCode:
		s.replica.breakCode()
		s.replica.awaitCrash(exhaustion)
	case nan, exception:
		begin := s.replica.throw
		if step.fault == nan {
			begin = func() func() { return s.replica.spoil(s.weights) }
		}
		restore := begin()
		<-time.After(step.holds)
		restore()
		return false
	case pause:
		s.replica.signal(syscall.SIGSTOP)
		<-time.After(step.holds)
		s.replica.signal(syscall.SIGCONT)
		return false
	case jump:
		s.replica.skew(jumpTo(rng))
		return false
	case killChild:
		for _, pid := range s.replica.children() {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
		return false
	case power:
		s.replica.kill()
		s.detach()
		s.disk.PowerCut(rng)
		s.attach()
	case full, readOnly, failing, slow:
		return s.degrade(step, rng)
	case flip, tear:
		s.damage(step.fault, rng)
	}
	return s.again()
}

// degrade changes the disk for some time. In half of the cases the process is killed meanwhile.
func (s *single) degrade(step step, rng *rand.Rand) bool {
	s.t.Helper()
	s.disk.Set(map[fault]powercut.Condition{full: powercut.Full, readOnly: powercut.ReadOnly, failing: powercut.Failing, slow: powercut.Slow}[step.fault])
	<-time.After(step.holds)
	if rng.IntN(2) == 0 {
		s.disk.Set(powercut.Working)
		return false
	}
	s.replica.kill()
	s.disk.Set(powercut.Working)
	return s.again()
}

// damage changes a file while the service is down. Each kind of file is equally likely, whatever their number.
func (s *single) damage(f fault, rng *rand.Rand) {
	s.t.Helper()
	if rng.IntN(2) == 0 {
		s.replica.terminate()
	} else {
		s.replica.kill()
	}
	s.detach()
	sizes := s.disk.Files()
	kinds := map[string][]string{}
	for _, at := range slices.Sorted(maps.Keys(sizes)) {
		if sizes[at] > 0 {
			kinds[kindOf(at)] = append(kinds[kindOf(at)], at)
		}
	}
	names := slices.Sorted(maps.Keys(kinds))
	files := kinds[names[rng.IntN(len(names))]]
	at := files[rng.IntN(len(files))]
	s.files = append(s.files, at)
	if f == flip {
		bit := rng.Int64N(8 * sizes[at])
		s.disk.FlipBit(at, bit)
		s.t.Logf("bit %d of byte %d of %d flipped in %s", bit%8, bit/8, sizes[at], at)
	} else {
		from, zeros := rng.Int64N(sizes[at]), rng.IntN(2) == 0
		s.disk.Tear(at, from, zeros)
		s.t.Logf("%s torn at byte %d of %d (zeros: %v)", at, from, sizes[at], zeros)
	}
	s.attach()
}

// kindOf is the kind of a file: its directory if it is of a stream, and its name without numbers.
func kindOf(at string) string {
	name := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, path.Base(at))
	if stream := streamOf(at); stream != "" {
		return fmt.Sprint(stream, " ", name)
	}
	return name
}

// streamOf is the stream of a file, "" if it is of none.
func streamOf(at string) string {
	_, after, _ := strings.Cut(at, "/streams/")
	stream, _, _ := strings.Cut(after, "/")
	return stream
}
