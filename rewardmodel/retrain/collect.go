package retrain

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"

	"assay/internal/durable"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
)

// job describes the data of a training run. It is stored once, so that a resumed
// run trains on the same bags.
type job struct {
	Base string
	// Revision is that of Current when Base was chosen; 0, as stored by older releases: unknown.
	Revision uint64 `json:",omitzero"`
	Anchor   string // the best version so far
	Data     Data
	// Holdout has the current labels of the hold-out, which the next promotion
	// freezes, and HoldoutAspects those that name aspects; see feedback.StoreLabels.
	Holdout        map[string]bool
	HoldoutAspects map[string]feedback.Labels `json:",omitzero"`
}

// collect creates the directory of the training run, unless it exists.
func (t *trainingRun) collect(ctx context.Context) (*job, error) {
	var j job
	data, err := os.ReadFile(t.path("job.json"))
	if err == nil {
		return &j, json.Unmarshal(data, &j)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := t.phase(ctx, PhaseCollecting); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(t.dir), 0o700); err != nil {
		return nil, err
	}
	err = durable.BuildDir(t.dir, 0o700, func(tmp string) error {
		if err := t.write(ctx, tmp, &j); err != nil {
			return err
		}
		data, err := json.Marshal(j, json.Deterministic(true))
		if err != nil {
			return err
		}
		return durable.WriteFile(filepath.Join(tmp, "job.json"), data, 0o600)
	})
	if err != nil {
		return nil, err
	}
	if n := j.Data.Disputed; n > 0 {
		disputed := Event{Kind: EventFeedbackDisputed, Reason: fmt.Sprintf("%d responses are omitted: their raters disagree", n), Key: t.id + ".disputed"}
		if err := t.emit(ctx, disputed); err != nil {
			return nil, err
		}
	}
	t.cfg.Metrics.collected(j.Data.OverShare)
	return &j, t.lease.update(ctx, func(s *Status) { s.Bags, s.HeldOut = j.Data.Bags, j.Data.HeldOut })
}

// selection assigns the records of each response to the files.
type selection struct {
	train   map[feedback.Hash]feedback.Labels
	holdout map[feedback.Hash]feedback.Labels
	probe   map[feedback.Hash]bool
	// at is the sequence of the record whose text is used; 0: any.
	at map[feedback.Hash]uint64
}

// choose divides the labeled responses among training, hold-out and probe.
func (t *trainingRun) choose(ctx context.Context, s Status, j *job) (selection, error) {
	var since uint64
	if s.Last != nil {
		since = s.Last.Through
	}
	split, err := t.split(ctx)
	if err != nil {
		return selection{}, err
	}
	current, err := t.Currents.Current(ctx)
	if err != nil {
		return selection{}, err
	}
	frozen, _, err := t.Holdout.Frozen(ctx)
	if err != nil {
		return selection{}, err
	}
	aspects, err := t.aspects(ctx, s.Base)
	if err != nil {
		return selection{}, err
	}
	sel := selection{train: map[feedback.Hash]feedback.Labels{}, holdout: map[feedback.Hash]feedback.Labels{},
		probe: map[feedback.Hash]bool{}, at: map[feedback.Hash]uint64{}}
	now := map[feedback.Hash]feedback.Labels{}
	known := map[feedback.Hash]bool{}
	var bags, held, added []feedback.Bag
	for b := range t.Labels.Index().Bags(split, aspects...) {
		before, wasHeldOut := frozen[b.ID] // also when the share has become smaller
		known[b.ID] = true
		if b.Sequence <= s.Through {
			sel.at[b.ID] = b.Sequence
		}
		settled := !b.Disputed && !b.Unlabeled && b.Sequence <= s.Through
		switch {
		case settled && wasHeldOut && b.Labels.EqualFor(before, aspects):
			now[b.ID] = labelsOf(b, aspects)
			held = append(held, b)
		case settled && (b.HeldOut || wasHeldOut):
			added = append(added, b)
			if wasHeldOut {
				now[b.ID] = before // unless its new label is within the share
			}
		case wasHeldOut:
			now[b.ID] = before
		case b.Disputed:
			j.Data.Disputed++
		case settled && !b.HeldOut:
			bags = append(bags, b)
		}
	}
	within := feedback.LimitSenders(added, split.MaxSenderShare, len(added), aspects...)
	for _, b := range within {
		now[b.ID] = labelsOf(b, aspects)
	}
	held = append(held, within...)
	slices.SortFunc(held, func(a, b feedback.Bag) int { return cmp.Compare(a.Sequence, b.Sequence) })
	sel.holdout = now
	if len(frozen) > 0 && !s.Refreeze {
		sel.holdout = map[feedback.Hash]feedback.Labels{}
		for id, labels := range frozen {
			if of, ok := labels.Of(aspects); ok && known[id] { // not erased
				sel.holdout[id] = of
			}
		}
		topUp(sel.holdout, held, t.policy.MinHeldOut, aspects)
	}
	// The new ones first, then those with the smallest hash under the ID of this
	// training run: a random sample that is the same in every attempt.
	order := func(b feedback.Bag) string { return feedback.HashOf(t.id + b.ID.String()).String() }
	slices.SortFunc(bags, func(a, b feedback.Bag) int {
		if fresh := cmp.Compare(newness(b, since), newness(a, since)); fresh != 0 {
			return fresh
		}
		return cmp.Compare(order(a), order(b))
	})
	trained := feedback.LimitSenders(bags, split.MaxSenderShare, t.cfg.MaxBags, aspects...)
	j.Data.OverShare = len(added) - len(within) + min(len(bags), t.cfg.MaxBags) - len(trained)
	for _, b := range trained {
		sel.train[b.ID] = labelsOf(b, aspects)
		j.Data.New += newness(b, since)
		if b.Violation {
			j.Data.Violations++
		}
	}
	all := slices.Concat(slices.Collect(maps.Keys(sel.train)), slices.Collect(maps.Keys(sel.holdout)))
	slices.SortFunc(all, func(a, b feedback.Hash) int {
		return cmp.Compare(feedback.HashOf(t.id+a.String()).String(), feedback.HashOf(t.id+b.String()).String())
	})
	for _, id := range all[:min(len(all), t.cfg.Probe)] {
		sel.probe[id] = true
	}
	j.Base, j.Revision, j.Anchor = s.Base, current.Revision, current.anchor()
	j.Data.Training, j.Data.Trigger, j.Data.Reason, j.Data.Through = t.id, s.Trigger, s.Reason, s.Through
	j.Data.Bags, j.Data.HeldOut, j.Data.Digest = len(sel.train), len(sel.holdout), digest(sel.train)
	j.Data.Raters = t.Labels.Index().Stats(split, since, aspects...).Raters
	j.Data.Aspects = countAspects(sel, aspects)
	j.Data.Settings = t.cfg.Settings
	j.Holdout, j.HoldoutAspects = feedback.StoreLabels(now)
	return sel, nil
}

func newness(b feedback.Bag, since uint64) int {
	if b.Sequence > since {
		return 1
	}
	return 0
}

// labelsOf returns the labels of a bag that the model learns from; of a model with
// one aspect, its verdict.
func labelsOf(b feedback.Bag, aspects []string) feedback.Labels {
	labels, _ := b.Labels.Of(aspects)
	return labels
}

// countAspects counts the labels of each of several aspects.
func countAspects(sel selection, aspects []string) map[string]AspectData {
	if len(aspects) <= 1 {
		return nil
	}
	out := map[string]AspectData{}
	for _, aspect := range aspects {
		var d AspectData
		for _, set := range []struct {
			labels           map[feedback.Hash]feedback.Labels
			bags, violations *int
		}{{sel.train, &d.Bags, &d.Violations}, {sel.holdout, &d.HeldOut, &d.HeldOutViolations}} {
			for _, labels := range set.labels {
				switch labels.For(aspect, len(aspects)) {
				case bag.Violation:
					*set.violations++
					*set.bags++
				case bag.Compliant:
					*set.bags++
				}
			}
		}
		out[aspect] = d
	}
	return out
}

// topUp adds labels to a frozen hold-out that is too small for an aspect, as after an
// erasure, when the minimum was raised or when the model has a new aspect. It adds
// labels of the kind that is too rare, the oldest first, because they are the least
// likely to be part of a current flood. It adds no others, and removes and changes
// nothing.
func topUp(holdout map[feedback.Hash]feedback.Labels, oldest []feedback.Bag, each int, aspects []string) {
	n := max(len(aspects), 1)
	names := aspects
	if n == 1 {
		names = []string{""} // the label of the whole response
	}
	type kind struct {
		aspect string
		label  bag.Label
	}
	have := map[kind]int{}
	for _, labels := range holdout {
		for _, name := range names {
			have[kind{name, labels.For(name, n)}]++
		}
	}
	for _, b := range oldest {
		frozen, now := holdout[b.ID], labelsOf(b, aspects)
		for _, name := range names {
			of := kind{name, now.For(name, n)}
			if of.label == "" || frozen.For(name, n) != "" || have[of] >= each {
				continue
			}
			have[of]++
			holdout[b.ID] = with(holdout[b.ID], of.aspect, of.label)
		}
	}
}

// with returns labels with another one; of the whole response if aspect is "".
func with(labels feedback.Labels, aspect string, label bag.Label) feedback.Labels {
	if aspect == "" {
		labels.Whole = label
		return labels
	}
	labels.Aspects = maps.Clone(labels.Aspects)
	if labels.Aspects == nil {
		labels.Aspects = map[string]bag.Label{}
	}
	labels.Aspects[aspect] = label
	return labels
}

// digest identifies a set of labeled responses.
func digest(set map[feedback.Hash]feedback.Labels) string {
	ids := slices.SortedFunc(maps.Keys(set), func(a, b feedback.Hash) int { return slices.Compare(a[:], b[:]) })
	sum := sha256.New()
	for _, id := range ids {
		labels := set[id]
		if labels.Aspects == nil {
			fmt.Fprintln(sum, id, labels.Whole == bag.Violation)
		} else {
			fmt.Fprintln(sum, id, labels.Whole, labels.Aspects) // fmt sorts maps
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// write reads the records once and writes each response to its files.
func (t *trainingRun) write(ctx context.Context, dir string, j *job) (err error) {
	s := t.lease.current()
	sel, err := t.choose(ctx, s, j)
	if err != nil {
		return err
	}
	files := map[string]*bagFile{}
	for _, name := range []string{"bags.jsonl", "holdout.jsonl", "probe.jsonl"} {
		if files[name], err = createBags(filepath.Join(dir, name)); err != nil {
			return err
		}
		defer func() { _ = files[name].close() }() // no-op after the checked close
	}
	if t.Recent != nil {
		recent, err := t.Recent(ctx, t.cfg.Probe)
		if err != nil {
			return err
		}
		if len(recent) >= t.cfg.Probe/2 {
			sel.probe = nil // recently scored responses are the better sample
		}
		for _, b := range recent {
			if err := files["probe.jsonl"].add(b, feedback.Labels{Whole: bag.Compliant}); err != nil {
				return err
			}
		}
	}
	done := map[feedback.Hash]bool{}      // a response has one record per rater
	prompts := map[feedback.Hash]string{} // the first one of a response that has several records
	for r, err := range t.Labels.Records(ctx, s.Through) {
		if err != nil {
			return err
		}
		id := feedback.HashOf(r.Record.Bag.ID)
		if at := sel.at[id]; done[id] || at != 0 && at != r.Sequence {
			if r.Record.Bag.Prompt != "" && prompts[id] == "" {
				prompts[id] = r.Record.Bag.Prompt
			}
			continue
		}
		done[id] = true
		// A later label may come without the prompt or with another one, and must not change what a model reads.
		r.Record.Bag.Prompt = cmp.Or(prompts[id], r.Record.Bag.Prompt)
		if labels, ok := sel.train[id]; ok {
			err = files["bags.jsonl"].add(r.Record.Bag, labels)
		} else if labels, ok := sel.holdout[id]; ok {
			err = files["holdout.jsonl"].add(r.Record.Bag, labels)
		}
		if sel.probe[id] && err == nil {
			err = files["probe.jsonl"].add(r.Record.Bag, feedback.LabelsOf(r.Record.Bag))
		}
		if err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := f.close(); err != nil {
			return err
		}
	}
	// The files omit what was erased or changed during the scan.
	j.Data.Bags, j.Data.HeldOut = files["bags.jsonl"].count, files["holdout.jsonl"].count
	return nil
}

// bagFile writes bags without the fields that training must not use.
type bagFile struct {
	file   *os.File
	w      *bufio.Writer
	count  int
	closed bool
}

func createBags(path string) (*bagFile, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &bagFile{file: f, w: bufio.NewWriter(f)}, nil
}

func (f *bagFile) add(b bag.Bag, labels feedback.Labels) error {
	b.Label, b.Labels = labels.Whole, labels.Aspects
	b.Rater, b.Time, b.Witness, b.Spans = "", nil, nil, nil
	f.count++
	return bag.Write(f.w, func(yield func(bag.Bag) bool) { yield(b) })
}

func (f *bagFile) close() error {
	if f.closed {
		return nil
	}
	f.closed = true
	return errors.Join(f.w.Flush(), f.file.Sync(), f.file.Close())
}
