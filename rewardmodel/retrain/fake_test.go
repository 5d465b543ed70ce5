package retrain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/internal/durable"
	"assay/internal/trace"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
)

// errDied is returned by every call of a process that has died.
var errDied = errors.New("the process has died")

// fleet is the state that replicas share.
type fleet struct {
	mu       sync.Mutex
	status   Status
	current  Current
	models   map[string]Model
	files    map[string]bool
	frozen   map[feedback.Hash]feedback.Labels
	events   []Event
	keys     map[string]bool
	index    *feedback.Index
	records  []feedback.Stored
	changes  int       // of the current version
	verdicts []Verdict // of the gate, in order; the last one is repeated
	judged   []GateFiles
	lost     string // a version whose files are gone
}

func newFleet() *fleet {
	f := &fleet{models: map[string]Model{}, files: map[string]bool{}, keys: map[string]bool{}, index: feedback.NewIndex(),
		verdicts: []Verdict{{Promote: true, Reason: "it is better"}}}
	f.models["base-1"] = Model{Version: "base-1", State: StateInitial}
	f.current = Current{Version: "base-1", Revision: 1, Since: time.Now()}
	return f
}

// promoteByHand makes the version "mine" current, as an operator does.
func (f *fleet) promoteByHand() {
	f.models["mine"] = Model{Version: "mine", State: StateInitial}
	f.current = f.current.next("mine", "eve", "by hand")
	f.current.Revision++
}

func labelOf(violation bool) bag.Label {
	if violation {
		return bag.Violation
	}
	return bag.Compliant
}

// say adds the label of a rater.
func (f *fleet) say(id, rater string, violation bool) {
	f.judge(id, rater, feedback.Labels{Whole: labelOf(violation)})
}

// judge adds the labels of a rater.
func (f *fleet) judge(id, rater string, labels feedback.Labels) {
	f.send("ann", id, rater, labels)
}

// send adds the labels of a rater that a token sent.
func (f *fleet) send(token, id, rater string, labels feedback.Labels) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.add(token, id, rater, labels)
}

// add is send with f.mu locked.
func (f *fleet) add(token, id, rater string, labels feedback.Labels) {
	b := bag.Bag{ID: id, Rater: rater, Label: labels.Whole, Labels: labels.Aspects, Response: "Text of " + id + "."}
	seq := f.index.Last() + 1
	f.records = slices.DeleteFunc(f.records, func(r feedback.Stored) bool {
		return r.Record.Bag.ID == id && r.Record.Bag.Rater == rater
	})
	r := feedback.Record{Bag: b, Received: time.Now(), By: token}
	f.records = append(f.records, feedback.Stored{Sequence: seq, Record: r})
	f.index.Apply(r.Mark(seq))
}

// sides returns whether each response is held out.
func (f *fleet) sides() map[feedback.Hash]bool {
	out := map[feedback.Hash]bool{}
	for b := range f.index.Bags(testSplit()) {
		out[b.ID] = b.HeldOut
	}
	return out
}

// label adds n responses of both labels.
func (f *fleet) label(from, n int) {
	f.mu.Lock() // at once, or a training run could start with some of them, and another one with the rest
	defer f.mu.Unlock()
	for i := from; i < from+n; i++ {
		f.add("ann", fmt.Sprint("r", i), "anna", feedback.Labels{Whole: labelOf(i%2 == 0)})
	}
}

// process is one replica's view of the fleet; it dies at call dieAt.
type process struct {
	*fleet
	t      testing.TB
	mu     sync.Mutex
	calls  int
	dieAt  int // once that call has had its effect; 0: never
	died   context.CancelFunc
	worker func(ctx context.Context) error // nil: trains immediately
	ttl    time.Duration                   // of the lease; 0: longer than any test
	before func(call int)                  // runs before each call, from 1; nil: nothing
	verify func() error                    // of an uploaded version, with the state locked; nil: it can serve
	freeze func() error                    // runs before Freeze, with the state locked; nil: nothing

	metrics *Metrics
	tracer  *trace.Tracer
}

// enter counts a call and reports whether the process dies before or after it.
func (p *process) enter() (before, after bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	if p.before != nil {
		p.before(p.calls)
	}
	switch {
	case p.dieAt == 0 || p.calls < p.dieAt:
		return false, false
	case p.calls == p.dieAt:
		p.died()
		return false, true
	}
	p.died()
	return true, true
}

// do runs one call of a process, which may die at it.
func do[T any](p *process, f func() (T, error)) (T, error) {
	before, after := p.enter()
	var none T
	if before {
		return none, errDied
	}
	p.fleet.mu.Lock()
	value, err := f()
	p.fleet.mu.Unlock()
	if after {
		return none, errDied
	}
	return value, err
}

func (p *process) Status(context.Context) (Status, error) {
	return do(p, func() (Status, error) { return p.status, nil })
}

func (p *process) SetStatus(_ context.Context, s Status) (Status, error) {
	return do(p, func() (Status, error) {
		if s.Revision != p.status.Revision {
			return s, ErrChanged
		}
		s.Revision++
		p.status = s
		return s, nil
	})
}

func (p *process) Model(_ context.Context, version string) (Model, error) {
	return do(p, func() (Model, error) {
		m, ok := p.models[version]
		if !ok {
			return m, ErrNoModel
		}
		return m, nil
	})
}

func (p *process) Models(context.Context) ([]Model, error) {
	return do(p, func() ([]Model, error) { return slices.Collect(maps.Values(p.models)), nil })
}

func (p *process) Register(_ context.Context, m Model) error {
	_, err := do(p, func() (int, error) {
		if _, ok := p.models[m.Version]; ok {
			return 0, ErrExists
		}
		p.models[m.Version] = m
		return 0, nil
	})
	return err
}

func (p *process) Update(_ context.Context, m Model) error {
	_, err := do(p, func() (int, error) { p.models[m.Version] = m; return 0, nil })
	return err
}

func (p *process) Upload(_ context.Context, version, dir string) (map[string]File, error) {
	return do(p, func() (map[string]File, error) {
		if !exists(filepath.Join(dir, "assay.json")) {
			return nil, errors.New("a partial candidate is published")
		}
		p.files[version] = true
		return map[string]File{"model.safetensors": {Size: 1}}, nil
	})
}

func (p *process) Remove(_ context.Context, version string) error {
	_, err := do(p, func() (int, error) { delete(p.files, version); return 0, nil })
	return err
}

func (p *process) Current(context.Context) (Current, error) {
	return do(p, func() (Current, error) { return p.current, nil })
}

func (p *process) SetCurrent(_ context.Context, c Current) (Current, error) {
	return do(p, func() (Current, error) {
		if c.Revision != p.current.Revision {
			return c, ErrChanged
		}
		if m := p.models[c.Version]; m.State != StateInitial && !p.files[c.Version] {
			return c, errors.New("a version without files becomes current")
		}
		c.Revision++
		p.current = c
		p.changes++
		return c, nil
	})
}

func (p *process) Frozen(context.Context) (labels map[feedback.Hash]feedback.Labels, version string, err error) {
	labels, err = do(p, func() (map[feedback.Hash]feedback.Labels, error) { return p.frozen, nil })
	return labels, "", err
}

func (p *process) HoldoutSalt(context.Context) ([]byte, error) {
	return do(p, func() ([]byte, error) { return []byte(testSalt), nil })
}

func (p *process) Freeze(_ context.Context, labels map[feedback.Hash]feedback.Labels, _ string) error {
	_, err := do(p, func() (int, error) {
		if p.freeze != nil {
			if err := p.freeze(); err != nil {
				return 0, err
			}
		}
		p.frozen = labels
		return 0, nil
	})
	return err
}

func (p *process) Publish(_ context.Context, e Event) error {
	_, err := do(p, func() (int, error) {
		if !p.keys[e.Key] {
			p.keys[e.Key] = true
			p.events = append(p.events, e)
		}
		return 0, nil
	})
	return err
}

func (p *process) Index() *feedback.Index { return p.index }

func (p *process) Records(_ context.Context, through uint64) iter.Seq2[feedback.Stored, error] {
	return func(yield func(feedback.Stored, error) bool) {
		records, err := do(p, func() ([]feedback.Stored, error) { return slices.Clone(p.records), nil })
		if err != nil {
			yield(feedback.Stored{}, err)
			return
		}
		for _, r := range records {
			if r.Sequence <= through && !yield(r, nil) {
				return
			}
		}
	}
}

func (p *process) Directory(_ context.Context, version string) (string, error) {
	return do(p, func() (string, error) {
		if version == p.lost {
			return "", ErrNoFiles
		}
		return "directory of " + version, nil
	})
}

func (p *process) Verify(context.Context, Model) error {
	_, err := do(p, func() (int, error) {
		if p.verify != nil {
			return 0, p.verify()
		}
		return 0, nil
	})
	return err
}

func (p *process) Train(ctx context.Context, _, bags, out string, report func(Progress)) error {
	if p.worker != nil {
		if err := p.worker(ctx); err != nil {
			return err
		}
	}
	report(Progress{Epoch: 1, Epochs: 1, Stage: "bfgpu"}) // which publishes
	_, err := do(p, func() (int, error) {
		require.NoError(p.t, os.MkdirAll(out, 0o700))
		return 0, durable.WriteFile(filepath.Join(out, "assay.json"), []byte(filepath.Base(filepath.Dir(bags))), 0o600)
	})
	return err
}

func (p *process) Gate(_ context.Context, files GateFiles) (Verdict, error) {
	return do(p, func() (Verdict, error) {
		p.judged = append(p.judged, files)
		v := p.verdicts[0]
		if len(p.verdicts) > 1 {
			p.verdicts = p.verdicts[1:]
		}
		return v, durable.WriteFile(files.Report, []byte("{}"), 0o600)
	})
}

func (p *process) Describe(dir string) (Model, error) {
	name, err := os.ReadFile(filepath.Join(dir, "assay.json"))
	return Model{Version: "assay-" + string(name), Threshold: 0.5}, err
}

func (p *process) Drift() Drift { return Drift{PValue: 1} }

func (p *process) Disagreement() Disagreement { return Disagreement{} }

// testSalt is the salt of a fleet.
const testSalt = "a salt of thirty-two bytes or so"

// testSplit is the split of testPolicy.
func testSplit() feedback.Split {
	return feedback.Split{Share: testPolicy().HoldoutShare, Salt: []byte(testSalt)}
}

// testPolicy trains with at least twenty new bags.
func testPolicy() Policy {
	p := DefaultPolicy()
	p.MinBags, p.MinEach, p.Cooldown, p.HoldoutShare, p.MinHeldOut = 20, 5, 0, 0.3, 2
	return p
}

// start runs a replica until the returned function stops it.
func (f *fleet) start(t testing.TB, replica, dir string, p *process) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	p.fleet, p.t = f, t
	if p.died == nil {
		p.died = cancel
	}
	cfg := Config{Replica: replica, Dir: dir, Interval: time.Millisecond, Heartbeat: time.Millisecond, TTL: cmp.Or(p.ttl, time.Minute), Metrics: p.metrics, Tracer: p.tracer}
	l := NewLoop(cfg, testPolicy(), Parts{p, p, p, p, p, p, p, p, p, nil}, zerolog.Nop())
	done := make(chan struct{})
	go func() {
		defer close(done)
		require.NoError(t, l.Run(ctx))
	}()
	return func() {
		cancel()
		<-done
	}
}

// ended waits until n training runs have ended and none runs.
func (f *fleet) ended(t testing.TB, n int) Outcome {
	t.Helper()
	var last Outcome
	require.Eventually(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		started := 0
		for _, e := range f.events {
			if e.Kind == EventTrainingStarted {
				started++
			}
		}
		if f.status.Last != nil {
			last = *f.status.Last
		}
		return started >= n && f.status.Phase == PhaseIdle && f.status.Last != nil
	}, 20*time.Second, time.Millisecond)
	return last
}

// kinds returns the kinds of all events, in order.
func (f *fleet) kinds() (out []EventKind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.events {
		if e.Kind != EventTrainingResumed && e.Kind != EventTrainingProgress {
			out = append(out, e.Kind)
		}
	}
	return out
}

// resumed returns why training runs were resumed, in order.
func (f *fleet) resumed() (out []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.events {
		if e.Kind == EventTrainingResumed {
			out = append(out, e.Reason)
		}
	}
	return out
}
