package retrain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"

	"assay/internal/durable"
)

// maxTakeUps is the number of attempts after which a training run is given up,
// each ended by the death of its service or by an error that was expected to go
// away: the run may well be the cause.
const maxTakeUps = 100

// training is one training in hand. Its folder holds what is done:
//
//	job.json, bags.jsonl, holdout.jsonl, probe.jsonl   what it learns from and is judged on
//	NAME/                                              the candidate
//	gate.json                                          the gate's verdict
//
// Each appears whole or not at all, so that a training goes on after any death.
type training struct {
	*Loop
	lease *lease
	id    string
	dir   string
	log   zerolog.Logger
}

// candidateName is the name of the model in its version.
const candidateName = "assay"

func (t *training) path(name string) string { return filepath.Join(t.dir, name) }

// runTold says that the training has begun, which who began it may have died
// before saying, and runs it.
func (t *training) runTold(ctx context.Context, resumed string) (Outcome, error) {
	s := t.lease.current()
	events := []Event{{Kind: EventTrainingStarted, Reason: s.Reason, By: s.By, Key: t.id + ".started"}}
	if resumed != "" {
		events = append(events, Event{Kind: EventTrainingResumed, Reason: resumed, Key: fmt.Sprint(t.id, ".resumed.", s.Attempt)})
	}
	for _, e := range events {
		if err := t.tell(ctx, e); err != nil {
			return Outcome{}, err
		}
	}
	last := events[len(events)-1]
	t.log.Info().Str("reason", last.Reason).Msg(string(last.Kind))
	return t.run(ctx)
}

// run takes all steps that are not done yet.
func (t *training) run(ctx context.Context) (Outcome, error) {
	if t.lease.current().Attempt > maxTakeUps {
		return Outcome{}, t.givenUp()
	}
	job, err := t.collect(ctx)
	if err != nil {
		return Outcome{}, err
	}
	base, err := t.Folders.Folder(ctx, job.Base)
	if err != nil {
		return Outcome{}, fmt.Errorf("the current model %s: %w", job.Base, err)
	}
	candidate, err := t.train(ctx, base)
	if err != nil {
		return Outcome{}, err
	}
	verdict, err := t.judge(ctx, job, base)
	if err != nil {
		return Outcome{}, err
	}
	candidate.Parent, candidate.By, candidate.Gate, candidate.Reason = job.Base, "gate", verdict.Report, verdict.Reason
	candidate.Data = &job.Data
	candidate.Data.Seconds = time.Since(t.lease.current().Started).Seconds()
	if !verdict.Promote {
		return t.reject(ctx, candidate)
	}
	return t.publish(ctx, job, candidate, verdict.Better)
}

// givenUp says why a training run is not attempted again.
func (t *training) givenUp() error {
	if t.trouble != nil {
		return fmt.Errorf("it failed %d times, the last time with: %w", maxTakeUps, t.trouble)
	}
	return fmt.Errorf("its service died %d times", maxTakeUps)
}

// phase tells where the training stands.
func (t *training) phase(ctx context.Context, p Phase) error {
	return t.lease.update(ctx, func(s *Status) { s.Phase, s.Progress = p, nil })
}

func (t *training) train(ctx context.Context, base string) (Model, error) {
	out := t.path(candidateName)
	if !exists(filepath.Join(out, "assay.json")) {
		if err := t.phase(ctx, PhaseTraining); err != nil {
			return Model{}, err
		}
		if err := t.Worker.Train(ctx, base, t.path("bags.jsonl"), out, func(p Progress) { t.report(ctx, p) }); err != nil {
			return Model{}, t.interrupted(ctx, err)
		}
	}
	m, err := t.Worker.Describe(out)
	if err != nil {
		return Model{}, fmt.Errorf("the candidate: %w", err)
	}
	return m, t.tell(ctx, Event{Kind: EventTrained, Version: m.Version, Reason: "the gate is next", Key: t.id + ".trained"})
}

// report takes the progress of the child. The next beat of the lease takes it
// along; what begins a stage is an event, which a training does not depend on.
func (t *training) report(ctx context.Context, p Progress) {
	t.lease.mu.Lock()
	before := t.lease.status.Progress
	t.lease.status.Progress = &p
	t.lease.mu.Unlock()
	if before != nil && before.Epoch == p.Epoch && before.Stage == p.Stage {
		return
	}
	details, err := json.Marshal(p)
	if err == nil {
		err = t.tell(ctx, Event{
			Kind: EventTrainingProgress, Reason: fmt.Sprintf("epoch %d of %d: %s", p.Epoch, p.Epochs, p.Stage),
			Details: details, Key: fmt.Sprint(t.id, ".progress.", p.Epoch, ".", p.Stage),
		})
	}
	if err != nil && ctx.Err() == nil {
		t.log.Debug().Err(err).Msg("cannot tell of the progress")
	}
}

func (t *training) judge(ctx context.Context, j *job, base string) (verdict Verdict, err error) {
	file := t.path("gate.json")
	if data, err := os.ReadFile(file); err == nil {
		return verdict, json.Unmarshal(data, &verdict)
	}
	if err := t.phase(ctx, PhaseGating); err != nil {
		return verdict, err
	}
	anchor, err := t.anchor(ctx, j)
	if err != nil {
		return verdict, err
	}
	verdict, err = t.Worker.Gate(ctx, GateFiles{
		Current: base, Candidate: t.path(candidateName), Anchor: anchor,
		Holdout: t.path("holdout.jsonl"), Probe: t.path("probe.jsonl"), Report: t.path("report.json"),
	})
	if err != nil {
		return verdict, t.interrupted(ctx, err)
	}
	data, err := json.Marshal(verdict)
	if err != nil {
		return verdict, err
	}
	return verdict, durable.WriteFile(file, data, 0o600)
}

// anchor is the directory of the best version so far; "" when that is the current
// version, or when its files are not kept, as after a change of the base model.
func (t *training) anchor(ctx context.Context, j *job) (string, error) {
	if j.Anchor == "" || j.Anchor == j.Base {
		return "", nil
	}
	dir, err := t.Folders.Folder(ctx, j.Anchor)
	if errors.Is(err, ErrNoFiles) || errors.Is(err, ErrNoModel) {
		t.log.Warn().Err(err).Msg("the best version so far cannot be loaded: the candidate is compared with the current one only")
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("the best version so far %s: %w", j.Anchor, err)
	}
	return dir, nil
}

// interrupted counts the deaths of the child.
func (t *training) interrupted(ctx context.Context, err error) error {
	if errors.Is(err, ErrInterrupted) && ctx.Err() == nil {
		if err := t.lease.update(ctx, func(s *Status) { s.Interrupted++ }); err != nil {
			return err
		}
	}
	return workError{err}
}

// workError marks what the worker failed with, as opposed to what a store or a
// disk did not do just now.
type workError struct{ error }

func (e workError) Unwrap() error { return e.error }

// final tells that trying again does not help.
func (t *training) final(err error) bool {
	var work workError
	if t.lease.current().Attempt > maxTakeUps {
		return true
	}
	return noSpace(err) || errors.As(err, &work) &&
		(!errors.Is(err, ErrInterrupted) || t.lease.current().Interrupted >= t.cfg.Attempts)
}

// noSpace reports whether a disk, or the quota of it, is full.
func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// explain adds the fix to an error that an operator can correct.
func (t *training) explain(err error) error {
	if noSpace(err) {
		return fmt.Errorf("no space left on the disk of %s: free some, or move the data directory to a larger disk: %w", t.cfg.Dir, err)
	}
	return err
}

// failed is the outcome of a training that gave nothing. Its feedback stays
// new, and the cool-down grows with every failure.
func (t *training) failed(ctx context.Context, why error) (Outcome, error) {
	s := t.lease.current()
	why = t.explain(why)
	out := Outcome{Result: ResultFailed, Reason: why.Error(), Failures: 1}
	if s.Last != nil {
		out.Through, out.Failures = s.Last.Through, s.Last.Failures+1
	}
	t.log.Error().Err(why).Msg("the training failed")
	return out, t.tell(ctx, Event{Kind: EventTrainingFailed, Reason: why.Error(), Key: t.id + ".failed"})
}

// finish gives the lease back and removes the folder.
func (t *training) finish(ctx context.Context, out Outcome) error {
	out.ID, out.Finished = t.id, time.Now().UTC()
	err := t.lease.update(ctx, func(s *Status) {
		*s = Status{Phase: PhaseIdle, ID: s.ID, Owner: s.Owner, Attempt: s.Attempt, Asked: s.Asked, Last: &out, Revision: s.Revision}
	})
	if err != nil {
		return err
	}
	t.log.Info().Str("result", string(out.Result)).Str("version", out.Version).Str("reason", out.Reason).Msg("training ended")
	return os.RemoveAll(t.dir)
}

// tell publishes an event of this training.
func (t *training) tell(ctx context.Context, e Event) error {
	e.Training, e.Replica, e.Time = t.id, t.cfg.Replica, time.Now().UTC()
	return t.Journal.Publish(ctx, e)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
