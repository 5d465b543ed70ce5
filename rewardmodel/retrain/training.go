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

// maxAttempts is the number of attempts after which a training run fails, each
// ended by the death of its service or by a retryable error: the run itself may
// be the cause.
const maxAttempts = 100

// trainingRun is one training run. Its directory stores what is done:
//
//	job.json, bags.jsonl, holdout.jsonl, probe.jsonl   its training and evaluation data
//	NAME/                                              the candidate
//	gate.json                                          the gate's verdict
//
// Each is written atomically, so that the run resumes after a crash at any point.
type trainingRun struct {
	*Loop
	lease *lease
	id    string
	dir   string
	log   zerolog.Logger
}

// candidateName is the name of the model in its version.
const candidateName = "assay"

func (t *trainingRun) path(name string) string { return filepath.Join(t.dir, name) }

// complete executes the training run and stores its outcome.
func (t *trainingRun) complete(ctx context.Context, resumed string) (Outcome, error) {
	out, err := t.start(ctx, resumed)
	switch {
	case err == nil:
	case context.Cause(ctx) != nil || errors.Is(err, ErrLeaseLost) || errors.Is(err, errCanceled):
		return Outcome{}, err
	case !t.final(err):
		t.lastError = err
		return Outcome{}, err
	default:
		if out, err = t.failed(ctx, err); err != nil {
			return Outcome{}, err
		}
	}
	t.lastError = nil
	return out, t.finish(ctx, out)
}

// start publishes that the training run has started or resumed, and runs it. It
// publishes the start again on each attempt, in case the process that created the
// run died before it did; the key of the event makes it unique.
func (t *trainingRun) start(ctx context.Context, resumed string) (Outcome, error) {
	s := t.lease.current()
	events := []Event{{Kind: EventTrainingStarted, Reason: s.Reason, By: s.By, Key: t.id + ".started"}}
	if resumed != "" && s.Canceled == nil {
		events = append(events, Event{Kind: EventTrainingResumed, Reason: resumed, Key: fmt.Sprint(t.id, ".resumed.", s.Attempt)})
	}
	for _, e := range events {
		if err := t.emit(ctx, e); err != nil {
			return Outcome{}, err
		}
	}
	if s.Canceled != nil {
		return Outcome{}, errCanceled // its process died before it was stopped
	}
	last := events[len(events)-1]
	t.log.Info().Str("reason", last.Reason).Msg(string(last.Kind))
	return t.run(ctx)
}

// run executes the steps that are not done yet.
func (t *trainingRun) run(ctx context.Context) (Outcome, error) {
	if t.lease.current().Attempt > maxAttempts {
		return Outcome{}, t.tooManyAttempts()
	}
	job, err := step(ctx, "collect", t.collect)
	if err != nil {
		return Outcome{}, err
	}
	base, err := t.Directories.Directory(ctx, job.Base)
	if err != nil {
		err = fmt.Errorf("the current model %s: %w", job.Base, err)
		if errors.Is(err, ErrNoFiles) || errors.Is(err, ErrNoModel) { // as after a start with another --model
			err = workError{err} // a retry does not help
		}
		return Outcome{}, err
	}
	candidate, err := step(ctx, "train", func(ctx context.Context) (Model, error) { return t.train(ctx, base) })
	if err != nil {
		return Outcome{}, err
	}
	verdict, err := step(ctx, "gate", func(ctx context.Context) (Verdict, error) { return t.judge(ctx, job, base) })
	if err != nil {
		return Outcome{}, err
	}
	describeSpan(ctx, job, candidate, verdict)
	candidate.Parent, candidate.By, candidate.Gate, candidate.Reason = job.Base, "gate", verdict.Report, verdict.Reason
	candidate.Data = &job.Data
	candidate.Data.Seconds = time.Since(t.lease.current().Started).Seconds()
	if !verdict.Promote {
		return t.reject(ctx, candidate)
	}
	return step(ctx, "publish", func(ctx context.Context) (Outcome, error) { return t.publish(ctx, job, candidate, verdict.Better) })
}

// tooManyAttempts is why the training run is not attempted again.
func (t *trainingRun) tooManyAttempts() error {
	if t.lastError != nil {
		return fmt.Errorf("it failed %d times, the last time with: %w", maxAttempts, t.lastError)
	}
	return fmt.Errorf("its service died %d times", maxAttempts)
}

// phase stores the phase of the training run.
func (t *trainingRun) phase(ctx context.Context, p Phase) error {
	return t.lease.update(ctx, func(s *Status) { s.Phase, s.Progress = p, nil })
}

func (t *trainingRun) train(ctx context.Context, base string) (Model, error) {
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
	return m, t.emit(ctx, Event{Kind: EventTrained, Version: m.Version, Reason: "the gate is next", Key: t.id + ".trained"})
}

// report records the progress of the child process. The next heartbeat of the lease
// stores it. The start of a stage is also an event; an error of its publication does
// not fail the training run.
func (t *trainingRun) report(ctx context.Context, p Progress) {
	t.lease.mu.Lock()
	before := t.lease.status.Progress
	t.lease.status.Progress = &p
	t.lease.mu.Unlock()
	if before != nil && before.Epoch == p.Epoch && before.Stage == p.Stage {
		return
	}
	details, err := json.Marshal(p)
	if err == nil {
		err = t.emit(ctx, Event{
			Kind: EventTrainingProgress, Reason: fmt.Sprintf("epoch %d of %d: %s", p.Epoch, p.Epochs, p.Stage),
			Details: details, Key: fmt.Sprint(t.id, ".progress.", p.Epoch, ".", p.Stage),
		})
	}
	if err != nil && ctx.Err() == nil {
		t.log.Debug().Err(err).Msg("cannot publish the progress")
	}
}

func (t *trainingRun) judge(ctx context.Context, j *job, base string) (verdict Verdict, err error) {
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
	t.cfg.Metrics.judged(verdict)
	return verdict, durable.WriteFile(file, data, 0o600)
}

// anchor returns the directory of the best version so far; "" when that is the current
// version, or when its files are not stored, as after a change of the base model.
func (t *trainingRun) anchor(ctx context.Context, j *job) (string, error) {
	if j.Anchor == "" || j.Anchor == j.Base {
		return "", nil
	}
	dir, err := t.Directories.Directory(ctx, j.Anchor)
	if errors.Is(err, ErrNoFiles) || errors.Is(err, ErrNoModel) {
		t.log.Warn().Err(err).Msg("the best version so far cannot be loaded: the candidate is compared with the current one only")
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("the best version so far %s: %w", j.Anchor, err)
	}
	return dir, nil
}

// interrupted counts how often the child process was killed.
func (t *trainingRun) interrupted(ctx context.Context, err error) error {
	if errors.Is(err, ErrInterrupted) && ctx.Err() == nil {
		if err := t.lease.update(ctx, func(s *Status) { s.Interrupted++ }); err != nil {
			return err
		}
	}
	return workError{err}
}

// workError marks an error of the worker, or of a model that cannot be loaded, as
// opposed to a retryable one of a store or a disk.
type workError struct{ error }

func (e workError) Unwrap() error { return e.error }

// final reports whether err is not retryable.
func (t *trainingRun) final(err error) bool {
	var work workError
	if t.lease.current().Attempt > maxAttempts {
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
func (t *trainingRun) explain(err error) error {
	if noSpace(err) {
		return fmt.Errorf("no space left on the disk of %s: free some, or move the data directory to a larger disk: %w", t.cfg.Dir, err)
	}
	if errors.Is(err, ErrNoFiles) || errors.Is(err, ErrNoModel) {
		return fmt.Errorf("promote a version whose files are stored, or start with the --model that was current: %w", err)
	}
	return err
}

// failed is the outcome of a training run without a candidate. Its feedback still
// counts as new, and each failure in a row doubles the cool-down.
func (t *trainingRun) failed(ctx context.Context, why error) (Outcome, error) {
	s := t.lease.current()
	why = t.explain(why)
	out := Outcome{Result: ResultFailed, Reason: why.Error(), Failures: 1}
	if s.Last != nil {
		out.Through, out.Failures = s.Last.Through, s.Last.Failures+1
	}
	t.log.Error().Err(why).Msg("training run failed")
	return out, t.emit(ctx, Event{Kind: EventTrainingFailed, Reason: why.Error(), Key: t.id + ".failed"})
}

// cancel ends a training run that an operator has stopped. Its feedback still counts
// as new.
func (t *trainingRun) cancel(ctx context.Context) (Outcome, error) {
	s := t.lease.current()
	out := Outcome{Result: ResultCanceled, Reason: s.Canceled.reason(), By: s.Canceled.By}
	if s.Last != nil {
		out.Through = s.Last.Through
	}
	if err := t.emit(ctx, Event{Kind: EventTrainingCanceled, By: out.By, Reason: out.Reason, Key: t.id + ".canceled"}); err != nil {
		return Outcome{}, err
	}
	t.lastError = nil
	return out, t.finish(ctx, out)
}

// finish releases the lease and removes the directory.
func (t *trainingRun) finish(ctx context.Context, out Outcome) error {
	out.ID, out.Finished = t.id, time.Now().UTC()
	started := t.lease.current().Started
	err := t.lease.update(ctx, func(s *Status) {
		*s = Status{Phase: PhaseIdle, ID: s.ID, Owner: s.Owner, Attempt: s.Attempt, Requested: s.Requested, Last: &out, Revision: s.Revision}
	})
	if err != nil {
		return err
	}
	t.cfg.Metrics.ended(out.Result, out.Finished.Sub(started))
	t.log.Info().Str("result", string(out.Result)).Str("version", out.Version).Str("reason", out.Reason).Msg("training run ended")
	return os.RemoveAll(t.dir)
}

// emit publishes an event of this training run.
func (t *trainingRun) emit(ctx context.Context, e Event) error {
	e.Training, e.Replica, e.Time = t.id, t.cfg.Replica, time.Now().UTC()
	return t.Journal.Publish(ctx, e)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
