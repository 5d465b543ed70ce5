package retrain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
)

func TestLoopPromotes(t *testing.T) {
	f := newFleet()
	f.label(0, 60)
	defer f.start(t, "a", t.TempDir(), &process{})()
	out := f.ended(t, 1)
	require.Equal(t, ResultPromoted, out.Result)
	require.Equal(t, out.Version, f.current.Version)
	require.Equal(t, []string{"base-1"}, f.current.Previous)
	require.Equal(t, []EventKind{EventTrainingStarted, EventTrained, EventPromoted}, f.kinds())
	m := f.models[out.Version]
	require.Equal(t, StatePromoted, m.State)
	require.Equal(t, "base-1", m.Parent)
	require.Equal(t, TriggerBags, m.Data.Trigger)
	require.Equal(t, 60, m.Data.Bags+m.Data.HeldOut)
	require.Len(t, f.frozen, m.Data.HeldOut)
}

func TestLoopRejects(t *testing.T) {
	f := newFleet()
	f.verdicts = []Verdict{{Reason: "it is worse"}}
	f.label(0, 60)
	defer f.start(t, "a", t.TempDir(), &process{})()
	out := f.ended(t, 1)
	require.Equal(t, ResultRejected, out.Result)
	require.Equal(t, "base-1", f.current.Version)
	require.Equal(t, StateRejected, f.models[out.Version].State)
	require.Empty(t, f.files)
	require.Nil(t, f.frozen)
	require.Equal(t, []EventKind{EventTrainingStarted, EventTrained, EventRejected}, f.kinds())

	// The training data is no longer new.
	f.label(60, 10)
	_, decision, err := NewLoop(Config{}, testPolicy(), Parts{Statuses: &process{fleet: f}, Currents: &process{fleet: f}, Models: &process{fleet: f}, Holdout: &process{fleet: f},
		Labels: &process{fleet: f}, Signals: &process{fleet: f}}, zerolog.Nop()).Outlook(t.Context())
	require.NoError(t, err)
	require.Equal(t, TriggerNone, decision.Trigger)
	require.Contains(t, decision.Wait, "new")
	f.label(70, 60)
	f.ended(t, 2)
}

// The counts are right after each change of the index, also if it is not of the highest
// sequence: requests and replicas store labels concurrently, and what one of them has stored
// may be applied after what another one has stored later.
func TestCountsFollowTheIndex(t *testing.T) {
	f := newFleet()
	p := &process{fleet: f}
	loop := NewLoop(Config{}, testPolicy(), Parts{Statuses: p, Currents: p, Models: p, Holdout: p, Labels: p, Signals: p}, zerolog.Nop())
	records := func() int {
		s, _, err := loop.Outlook(t.Context())
		require.NoError(t, err)
		return s.Stats.Records
	}
	apply := func(id string, sequence uint64) {
		f.index.Apply(feedback.Record{Bag: bag.Bag{ID: id, Rater: "anna", Label: bag.Violation, Response: id}}.Mark(sequence))
	}
	require.Zero(t, records())
	apply("a", 3)
	require.Equal(t, 1, records())
	apply("b", 2)
	require.Equal(t, 2, records())
	f.index.Erase(feedback.HashOf("a"), 1)
	require.Equal(t, 1, records())

	f.index = feedback.NewIndex() // as after the loss of a label
	apply("a", 2)
	apply("b", 3)
	require.Equal(t, 2, records())
}

// A replica may die after the effect of any of its calls, and so before that of the
// next one: the next replica completes the training run with the same result.
func TestLoopSurvivesACrashAtEveryCall(t *testing.T) {
	f := newFleet()
	f.label(0, 60)
	p := &process{}
	stop := f.start(t, "a", t.TempDir(), p)
	f.ended(t, 1)
	stop()
	for dieAt := 1; dieAt <= p.calls+2; dieAt++ {
		successor := []string{"a", "b"}[dieAt%2]
		survive(t, fmt.Sprintf("call %d, then %s", dieAt, successor), dieAt, successor)
	}
}

func survive(t *testing.T, name string, dieAt int, successor string) {
	f := newFleet()
	f.label(0, 60)
	dir := t.TempDir()
	first := &process{dieAt: dieAt}
	stop := f.start(t, "a", dir, first)
	require.Eventually(t, func() bool {
		first.mu.Lock()
		defer first.mu.Unlock()
		return first.calls >= dieAt
	}, 20*time.Second, 100*time.Microsecond, name)
	stop()
	second := &process{}
	if successor != "a" { // another machine, which has to wait for the lease to expire
		dir, second.ttl = t.TempDir(), 500*time.Millisecond
	}
	stop = f.start(t, successor, dir, second)
	out := f.ended(t, 1)
	stop()
	require.Equal(t, ResultPromoted, out.Result, name)
	require.Equal(t, 1, f.changes, name)
	require.Equal(t, out.Version, f.current.Version, name)
	require.Equal(t, []EventKind{EventTrainingStarted, EventTrained, EventPromoted}, f.kinds(), name)
	require.Equal(t, StatePromoted, f.models[out.Version].State, name)
	require.NotEmpty(t, f.frozen, name)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, name)
}

// One of many replicas trains; when its heartbeat stops, another takes over, and later
// calls of the first have no effect.
func TestLoopTrainsOnceInAFleet(t *testing.T) {
	f := newFleet()
	f.label(0, 60)
	entered := make(chan string, 10)
	var stops []func()
	for _, name := range []string{"a", "b", "c"} {
		work := func(context.Context) error { entered <- name; return nil }
		stops = append(stops, f.start(t, name, t.TempDir(), &process{worker: work}))
	}
	f.ended(t, 1)
	for _, stop := range stops {
		stop()
	}
	require.Len(t, entered, 1)
	require.Equal(t, 1, f.changes)
}

func TestLoopTakesOverFromASilentReplica(t *testing.T) {
	f := newFleet()
	f.label(0, 60)
	training := make(chan struct{})
	p := &process{died: func() {}, ttl: 500 * time.Millisecond, worker: func(ctx context.Context) error {
		close(training)
		<-ctx.Done() // killed with its lease
		return context.Cause(ctx)
	}}
	stopA := f.start(t, "a", t.TempDir(), p)
	<-training
	// Every further call of a fails: it is cut off from the fleet.
	p.mu.Lock()
	p.dieAt = 1
	p.mu.Unlock()
	stopB := f.start(t, "b", t.TempDir(), &process{ttl: 500 * time.Millisecond})
	out := f.ended(t, 1)
	stopB()
	stopA()
	require.Equal(t, ResultPromoted, out.Result)
	require.Equal(t, "b", f.status.Owner)
	require.Equal(t, 1, f.changes)
}

// A killed child process is retried, a failing one is not, and its feedback is still
// new.
func TestLoopFailures(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		times int
	}{
		"killed": {fmt.Errorf("%w: signal", ErrInterrupted), 3},
		"failed": {fmt.Errorf("the loss is not finite"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet()
			f.label(0, 60)
			times := 0
			work := func(context.Context) error {
				if times++; times > c.times {
					return nil
				}
				return c.err
			}
			p := &process{worker: work}
			stop := f.start(t, "a", t.TempDir(), p)
			out := f.ended(t, 1)
			require.Equal(t, ResultFailed, out.Result)
			require.Zero(t, out.Through)
			require.Equal(t, 1, out.Failures)
			require.Contains(t, f.kinds(), EventTrainingFailed)

			_, err := Operator{Statuses: p}.Start(t.Context(), TrainingRequest{By: "eve"}) // overrides the cool-down
			require.NoError(t, err)
			out = f.ended(t, 2)
			stop()
			require.Equal(t, ResultPromoted, out.Result)
			require.Equal(t, c.times+1, times)
			require.Zero(t, out.Failures)
		})
	}
}

// A concurrent rollback or promotion by hand is not undone.
func TestLoopKeepsConcurrentPromotions(t *testing.T) {
	f := newFleet()
	f.label(0, 60)
	work := func(context.Context) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.promoteByHand()
		return nil
	}
	defer f.start(t, "a", t.TempDir(), &process{worker: work})()
	out := f.ended(t, 1)
	require.Equal(t, ResultRejected, out.Result)
	require.Equal(t, "mine", f.current.Version)
	require.Contains(t, out.Reason, "mine became current")
}

// A candidate that is rolled back before its training run has ended does not become
// current again, although its base is current again.
func TestLoopKeepsARollbackOfItsCandidate(t *testing.T) {
	f := newFleet()
	f.label(0, 60)
	p := &process{freeze: func() error {
		f.current = Current{Version: "base-1", Since: time.Now(), By: "eve", Reason: "rewards look odd", Revision: f.current.Revision + 1}
		return errors.New("the store is full")
	}}
	defer f.start(t, "a", t.TempDir(), p)()
	out := f.ended(t, 1)
	require.Equal(t, ResultRejected, out.Result)
	require.Contains(t, out.Reason, "rewards look odd")
	require.Equal(t, "base-1", f.current.Version)
	require.Equal(t, 1, f.changes)
	require.Equal(t, StateRejected, f.models[out.Version].State)
	require.Empty(t, f.files)
	require.Nil(t, f.frozen)
	require.Equal(t, []string{"its last attempt failed: the store is full"}, f.resumed())
}

// A candidate that was current, and after which another version was promoted before its
// training run has ended, keeps its files: a rollback returns to it.
func TestLoopKeepsACandidateThatWasCurrent(t *testing.T) {
	f := newFleet()
	f.label(0, 60)
	p := &process{freeze: func() error {
		if f.current.Version == "mine" {
			return nil
		}
		f.promoteByHand()
		return errors.New("the store is full")
	}}
	defer f.start(t, "a", t.TempDir(), p)()
	out := f.ended(t, 1)
	require.Equal(t, ResultPromoted, out.Result)
	require.Equal(t, "mine", f.current.Version)
	require.Equal(t, []string{"base-1", out.Version}, f.current.Previous)
	require.Equal(t, StatePromoted, f.models[out.Version].State)
	require.True(t, f.files[out.Version])
}

// A candidate that is rejected after its files were stored leaves none behind.
func TestLoopRemovesTheFilesOfARejectedCandidate(t *testing.T) {
	f := newFleet()
	f.label(0, 60)
	p := &process{verify: func() error {
		f.promoteByHand()
		return errors.New("the store does not respond")
	}}
	defer f.start(t, "a", t.TempDir(), p)()
	out := f.ended(t, 1)
	require.Equal(t, ResultRejected, out.Result)
	require.Equal(t, "mine", f.current.Version)
	require.Empty(t, f.files)
}

// A base whose files are not stored, as after a start with another --model, ends the
// training run at its first attempt, with the fix.
func TestLoopWithoutTheFilesOfItsBase(t *testing.T) {
	f := newFleet()
	f.label(0, 60)
	f.lost = "base-1"
	defer f.start(t, "a", t.TempDir(), &process{})()
	out := f.ended(t, 1)
	require.Equal(t, ResultFailed, out.Result)
	require.Equal(t, 1, out.Failures)
	require.Contains(t, out.Reason, "start with the --model that was current")
	require.Contains(t, out.Reason, "base-1")
	require.Empty(t, f.resumed())
}

func TestOperator(t *testing.T) {
	f := newFleet()
	p := &process{fleet: f, t: t, died: func() {}}
	o := Operator{Models: p, Currents: p, Statuses: p, Journal: p}
	ctx := t.Context()
	_, err := o.Rollback(ctx, "eve", "")
	require.ErrorIs(t, err, ErrNoPrevious)
	_, err = o.Promote(ctx, "nowhere", "eve", "")
	require.ErrorIs(t, err, ErrNoModel)
	f.models["bad"] = Model{Version: "bad", State: StateRejected}
	_, err = o.Promote(ctx, "bad", "eve", "")
	require.ErrorIs(t, err, ErrNoFiles)
	f.models["good"] = Model{Version: "good", State: StatePromoted, Files: map[string]File{"a": {}}}
	f.files["good"] = true
	current, err := o.Promote(ctx, "good", "eve", "")
	require.NoError(t, err)
	require.Equal(t, "good", current.Version)
	current, err = o.Rollback(ctx, "eve", "rewards look odd")
	require.NoError(t, err)
	require.Equal(t, "base-1", current.Version)
	require.Equal(t, "rewards look odd", current.Reason)
	require.Equal(t, []EventKind{EventPromoted, EventRolledBack}, f.kinds())
	status, err := o.Start(ctx, TrainingRequest{By: "eve"})
	require.NoError(t, err)
	require.Equal(t, "eve", status.Requested.By)
}

// The files of a training run have every response once, with the majority's label, and
// separately the hold-out with its frozen labels.
func TestCollect(t *testing.T) {
	f := newFleet()
	f.label(0, 100)
	f.say("r0", "ben", false) // with anna's violation: disputed
	f.say("r1", "ben", true)
	f.say("r1", "carl", true) // outvotes anna
	var held string
	sides := f.sides()
	for i := range 100 {
		if id := fmt.Sprint("r", i); i > 1 && sides[feedback.HashOf(id)] {
			held = id
			break
		}
	}
	f.frozen = map[feedback.Hash]feedback.Labels{}
	for b := range f.index.Bags(testSplit()) {
		if b.HeldOut && !b.Disputed {
			f.frozen[b.ID] = feedback.Labels{Whole: labelOf(b.Violation)}
		}
	}
	before := f.frozen[feedback.HashOf(held)].Whole == bag.Violation
	f.say(held, "anna", !before) // poison

	dir := t.TempDir()
	p := &process{fleet: f, t: t, died: func() {}}
	f.status = Status{Phase: PhaseCollecting, ID: "x", Through: f.index.Last(), Base: "base-1"}
	l := NewLoop(Config{Dir: dir, MaxBags: 40}, testPolicy(), Parts{p, p, p, p, p, p, p, p, p, nil}, zerolog.Nop())
	tr := &trainingRun{Loop: l, id: "x", dir: filepath.Join(dir, "x"), lease: &lease{store: p, now: time.Now, ttl: time.Minute, status: f.status}}
	j, err := tr.collect(t.Context())
	require.NoError(t, err)

	trained, heldOut := readBags(t, tr.path("bags.jsonl")), readBags(t, tr.path("holdout.jsonl"))
	require.Len(t, trained, 40)
	require.Equal(t, 40, j.Data.Bags)
	require.Len(t, heldOut, j.Data.HeldOut)
	require.Equal(t, before, heldOut[held] == bag.Violation, "the frozen label judges")
	require.Equal(t, !before, j.Holdout[feedback.HashOf(held).String()], "the next promotion freezes the new one")
	for id := range trained {
		require.NotContains(t, heldOut, id)
		require.False(t, sides[feedback.HashOf(id)])
	}
	for _, file := range []map[string]bag.Label{trained, heldOut} {
		if label, ok := file["r1"]; ok {
			require.Equal(t, bag.Violation, label)
		}
		require.NotContains(t, trained, "r0")
	}
	again, err := tr.collect(t.Context())
	require.NoError(t, err)
	require.Equal(t, j.Data.Digest, again.Data.Digest)
}

func readBags(t *testing.T, path string) map[string]bag.Label {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	out := map[string]bag.Label{}
	for b, err := range bag.Read(file) {
		require.NoError(t, err)
		require.NotContains(t, out, b.ID)
		out[b.ID] = b.Label
	}
	return out
}
