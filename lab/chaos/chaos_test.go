package chaos_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/lab/chaos/powercut"
	"assay/queue/queuetest/clockskew"
	"assay/sidecar/processtest"
	"assay/sidecar/program"
)

// The flags of the tests.
var (
	duration = flag.Duration("duration", 0, "how long schedules run; 0: one short schedule")
	seedFlag = flag.Uint64("seed", 0, "seed of the first schedule; 0: random")
	only     = flag.String("profile", "", "only schedules of this profile")
	length   = flag.Duration("length", 20*time.Second, "time of the faults of a schedule")
	serve    = flag.String("serve", "", "more flags of assay serve, separated by spaces")
)

func TestMain(m *testing.M) { processtest.RunTests(m, program.Assay()) }

// calmDeadline is how long everything that must be completed may take when the faults have ended. During the faults, each
// start of a process and each reply have deadlines of their own.
const calmDeadline = 5 * time.Minute

// shortLength is the length of a schedule without -duration.
const shortLength = 3 * time.Second

// TestChaos runs random schedules until -duration has passed, each a subtest named by its profile and seed. These are
// minutes of schedules, one schedule again, and a service that must fail because it syncs late:
//
//	go test ./lab/chaos -run TestChaos -v -duration 10m
//	go test ./lab/chaos -run TestChaos -v -duration 1s -profile power -seed 4711
//	go test ./lab/chaos -run TestChaos -v -duration 1s -profile power -serve "--sync interval"
func TestChaos(t *testing.T) {
	if testing.Short() && *duration == 0 {
		t.Skip("a long test")
	}
	kinds := selected(t)
	models := newModels(t)
	seed := *seedFlag
	if *duration == 0 {
		kinds, seed, *length = kinds[:1], 1, shortLength
	}
	if seed == 0 {
		seed = rand.Uint64N(1e9)
	}
	sum, began, runs := newSummary(), time.Now(), uint64(0)
	for ; runs == 0 || time.Since(began) < *duration; runs++ {
		s := newSchedule(seed+runs, kinds[(seed+runs)%uint64(len(kinds))], *length)
		t.Run(fmt.Sprintf("%s/%d", s.of.name, s.seed), func(t *testing.T) { runSchedule(t, models, s, sum) })
	}
	t.Logf("%d schedules in %v\n%s", runs, time.Since(began).Round(time.Second), sum)
}

// selected returns the profiles that this machine can run.
func selected(t *testing.T) []profile {
	t.Helper()
	kinds := slices.DeleteFunc(slices.Clone(profiles), func(p profile) bool { return *only != "" && p.name != *only })
	if len(kinds) == 0 {
		t.Fatalf("-profile %s: unknown profile", *only)
	}
	for _, needs := range []struct {
		what string
		by   func(profile) bool
		err  error
	}{
		{"power cuts, disk faults and damaged files", func(p profile) bool { return p.disk }, tryDisk(t)},
		{"clocks that jump", func(p profile) bool { return p.clock }, tryClock(t)},
		{"changes of the memory of a process", func(p profile) bool { return p.native }, tryMemory(t)},
	} {
		if needs.err == nil {
			continue
		}
		t.Logf("no %s: %v", needs.what, needs.err)
		if kinds = slices.DeleteFunc(kinds, needs.by); len(kinds) == 0 {
			t.Skip("this machine cannot run the profile")
		}
	}
	return kinds
}

// tryDisk reports why a disk of package powercut cannot be mounted.
func tryDisk(t *testing.T) error {
	t.Helper()
	mount, err := powercut.NewDisk().Mount(t.TempDir())
	if err != nil {
		return err
	}
	return mount.Unmount()
}

// tryClock reports why the clock of a process cannot be set.
func tryClock(t *testing.T) error {
	t.Helper()
	child := exec.Command("sleep", "60")
	require.NoError(t, child.Start())
	err := clockskew.Set(child.Process.Pid, 0)
	require.NoError(t, child.Process.Kill())
	_ = child.Wait() // killed
	return err
}

// runSchedule injects the faults while clients work, and checks the history.
func runSchedule(t *testing.T, models *models, s schedule, sum *summary) {
	t.Logf("%s\nreplay: go test ./lab/chaos -run TestChaos -duration 1s -profile %s -seed %d -length %s", s, s.of.name, s.seed, *length)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h := newHistory(models.numerics)
	defer func() { t.Log(h.times()) }()
	var sys system
	if s.of.fleet {
		sys = newFleet(t, models, s)
	} else {
		sys = newSingle(t, models, s)
	}
	t.Cleanup(func() { explain(t, sys, h) })
	sys.begin()
	registerModels(t, models, sys)
	h.reached("start")
	c := startClients(ctx, s, sys, models, h)
	for _, step := range s.steps {
		<-time.After(step.after)
		if h.failed() {
			break
		}
		h.note("%s", step.fault)
		sum.inject(step.fault)
		if sys.inject(step, rand.New(rand.NewPCG(step.seed, 2))) {
			break // it refuses to run on damaged data, and says so
		}
	}
	h.reached("faults and restarts")
	checker := newChecker(ctx, t, sys, models, s, h)
	if lines := sys.refused(); len(lines) > 0 {
		c.abandon()
		checker.refused(lines)
		sum.end(s, h, lines[len(lines)-1])
		return
	}
	defer time.AfterFunc(calmDeadline, cancel).Stop()
	c.finish()
	h.reached("what was not acknowledged")
	checker.check()
	h.reached("check")
	sum.end(s, h, "")
}

// system is what the faults are injected into.
type system interface {
	begin()                                        // starts it, and waits until it is ready
	inject(step step, rng *rand.Rand) (ended bool) // returns when the fault has ended; ended: the schedule is over
	pick(rng *rand.Rand) (address, bool)           // of a process that runs
	refused() []string                             // the log of the start that it refused on damaged data; none: it runs
	damaged() []string                             // the files that were damaged
	deaths() int                                   // how many processes were killed
	output() []string                              // ends it, and returns its last log lines
	reports() []string                             // ends it, and returns the warnings and errors in its logs
}

// address is where a process listens.
type address struct {
	http, nats string
	life       *life
}

// explain logs what happened before a failure.
func explain(t *testing.T, sys system, h *history) {
	if !t.Failed() {
		return
	}
	t.Logf("history:\n%s", strings.Join(h.notes(), "\n"))
	t.Logf("last lines of the logs:\n%s", strings.Join(sys.output(), "\n"))
}

// summary counts what all schedules did.
type summary struct {
	faults    map[fault]int
	counts    map[string]int
	schedules map[string]int
	refusals  map[string]int
}

func newSummary() *summary {
	return &summary{faults: map[fault]int{}, counts: map[string]int{}, schedules: map[string]int{}, refusals: map[string]int{}}
}

func (s *summary) inject(f fault) { s.faults[f]++ }

func (s *summary) end(of schedule, h *history, refusal string) {
	s.schedules[of.of.name]++
	if refusal != "" {
		s.refusals[refusal]++
	}
	for name, n := range h.counts() {
		s.counts[name] += n
	}
}

// String is a table.
func (s *summary) String() string {
	var b strings.Builder
	for _, part := range []struct {
		title string
		rows  map[string]int
	}{{"schedules", s.schedules}, {"faults", names(s.faults)}, {"history", s.counts}, {"refused to start", s.refusals}} {
		fmt.Fprintf(&b, "%s:\n", part.title)
		for _, name := range slices.Sorted(maps.Keys(part.rows)) {
			fmt.Fprintf(&b, "  %7d %s\n", part.rows[name], name)
		}
	}
	return b.String()
}

func names(counts map[fault]int) map[string]int {
	out := map[string]int{}
	for f, n := range counts {
		out[string(f)] = n
	}
	return out
}
