package chaos_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fault is what a schedule does to the service.
type fault string

const (
	kill      fault = "kill -9"
	segv      fault = "SIGSEGV in a thread"
	terminate fault = "SIGTERM"
	pause     fault = "SIGSTOP, SIGCONT"
	killChild fault = "kill -9 of the training process"
	power     fault = "power cut"
	full      fault = "disk full"
	readOnly  fault = "disk read-only"
	failing   fault = "disk fails (EIO)"
	slow      fault = "disk slow"
	flip      fault = "bit flipped in a file"
	tear      fault = "file torn"
	noMemory  fault = "no more memory"
	nan       fault = "weights are NaN"
	exception fault = "libtorch throws exceptions"
	badCode   fault = "invalid access in libtorch"
	cutOff    fault = "replica cut off from NATS"
	swallow   fault = "replica's network drops packets"
	killNode  fault = "kill -9 of a NATS server"
	isolate   fault = "NATS server cut off from the others"
	freeze    fault = "SIGSTOP of a NATS server"
	lag       fault = "replica's network is slow"
	lagNode   fault = "network between NATS servers is slow"
	lose      fault = "NATS server restarted empty"
	jump      fault = "wall clock jumps"
	jumpNode  fault = "wall clock of a NATS server jumps"
)

// profile is a kind of schedule: faults that belong together because the same is promised.
type profile struct {
	name     string
	faults   []fault // one that is named twice is twice as likely
	disk     bool    // needs a disk of package powercut
	fleet    bool    // two replicas on a cluster of NATS servers, which are not embedded
	training bool    // some schedules train
	damage   bool    // stored data may be lost if the service reports it
	clock    bool    // needs a wall clock that jumps
	native   bool    // changes the memory of the process
}

// profiles are all kinds of schedules. The first that a machine can run is the short test.
var profiles = []profile{
	{name: "power", faults: []fault{power, power, power, kill, pause}, disk: true},
	{name: "crash", faults: []fault{kill, kill, terminate, pause, noMemory}},
	{name: "segv", faults: []fault{segv, segv, segv, kill, pause, terminate}},
	{name: "native", faults: []fault{nan, nan, exception, exception, badCode, badCode, pause, terminate}, native: true},
	{name: "disk", faults: []fault{full, readOnly, failing, slow, kill, power}, disk: true},
	{name: "training", faults: []fault{kill, killChild, killChild, power, pause, terminate}, disk: true, training: true},
	{name: "damage", faults: []fault{flip, flip, tear, kill}, disk: true, damage: true},
	{name: "fleet", faults: []fault{kill, pause, cutOff, swallow, killNode, isolate, freeze, terminate, lag, lagNode, lose}, fleet: true},
	{name: "clock", faults: []fault{jump, jump, jump, kill, pause, terminate}, clock: true},
	{name: "fleet-clock", faults: []fault{jump, jump, jumpNode, jumpNode, kill, pause, cutOff, killNode}, fleet: true, clock: true},
}

// schedule is the faults of one run.
type schedule struct {
	seed  uint64
	of    profile
	steps []step
}

// step is a fault that is injected some time after the previous one has ended.
type step struct {
	after time.Duration
	fault fault
	holds time.Duration // of a condition that ends
	seed  uint64        // for its details
}

// maxDeaths is how often the processes of a schedule are killed: a harmless response that was in flight at six deaths
// becomes a dead letter, as documented.
const maxDeaths = 5

// maxJump is how far a wall clock may differ from the clock of the machine: less than the maximum age of what is stored.
const maxJump = 24 * time.Hour

// jumpTo returns how far a wall clock is set forward or back: as often by seconds as by hours.
func jumpTo(rng *rand.Rand) time.Duration {
	seconds := math.Exp(rng.Float64() * math.Log(maxJump.Seconds()))
	if rng.IntN(2) == 0 {
		seconds = -seconds
	}
	return time.Duration(seconds) * time.Second
}

// newSchedule derives a schedule from a seed; length is the time that its steps take, without restarts.
func newSchedule(seed uint64, of profile, length time.Duration) schedule {
	rng := rand.New(rand.NewPCG(seed, 1))
	s := schedule{seed: seed, of: of}
	deaths := 0
	for left := length; left > 0; {
		next := step{
			after: time.Duration(rng.Int64N(int64(2500 * time.Millisecond))),
			fault: of.faults[rng.IntN(len(of.faults))],
			holds: 100*time.Millisecond + time.Duration(rng.Int64N(int64(2*time.Second))),
			seed:  rng.Uint64(),
		}
		switch next.fault {
		case kill, segv, power, noMemory, badCode, flip, tear:
			if deaths++; deaths > maxDeaths {
				next.fault = pause
			}
		}
		left -= next.after + next.holds
		s.steps = append(s.steps, next)
	}
	return s
}

// String is the schedule in words.
func (s schedule) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %s:", s.seed, s.of.name)
	for _, step := range s.steps {
		fmt.Fprintf(&b, " +%.1fs %s;", step.after.Seconds(), step.fault)
	}
	return b.String()
}

func TestSchedulesAreReproducible(t *testing.T) {
	for _, of := range profiles {
		for seed := range uint64(50) {
			s := newSchedule(seed, of, 20*time.Second)
			require.Equal(t, s, newSchedule(seed, of, 20*time.Second))
			require.NotEqual(t, s.steps, newSchedule(seed+1, of, 20*time.Second).steps)
			deaths, took := 0, time.Duration(0)
			for _, step := range s.steps {
				require.Contains(t, append([]fault{pause}, of.faults...), step.fault)
				if slices.Contains([]fault{kill, segv, power, noMemory, badCode, flip, tear}, step.fault) {
					deaths++
				}
				took += step.after + step.holds
			}
			require.LessOrEqual(t, deaths, maxDeaths)
			require.GreaterOrEqual(t, took, 20*time.Second)
		}
	}
}
