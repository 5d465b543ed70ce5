package retrain

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Operator promotes models, rolls them back, and starts and stops training runs, for a person.
type Operator struct {
	Models   Models
	Currents Currents
	Statuses Statuses
	Journal  Journal
	Replica  string
	Metrics  *Metrics // nil: none
}

// Begin registers the initial model of a service, and makes it current if no model
// is. It returns the current version.
func (o Operator) Begin(ctx context.Context, m Model) (Current, error) {
	m.State, m.By, m.Reason = StateInitial, "start", "a service was started with it"
	if err := o.Models.Register(ctx, m); err != nil && !errors.Is(err, ErrExists) {
		return Current{}, err
	}
	for {
		current, err := o.Currents.Current(ctx)
		if err != nil || current.Revision != 0 {
			return current, err
		}
		current, err = o.Currents.SetCurrent(ctx, Current{}.next(m.Version, m.By, m.Reason))
		if !errors.Is(err, ErrChanged) {
			return current, err
		}
	}
}

// Promote makes a version current without the gate. Errors: ErrNoModel, ErrNoFiles,
// ErrChanged when the current version changes concurrently.
func (o Operator) Promote(ctx context.Context, version, by, reason string) (Current, error) {
	current, err := o.Currents.Current(ctx)
	if err != nil || current.Version == version {
		return current, err
	}
	if err := o.servable(ctx, version); err != nil {
		return Current{}, err
	}
	if reason == "" {
		reason = "promoted by hand"
	}
	return o.set(ctx, current.next(version, by, reason), EventPromoted)
}

// Rollback makes the version before the current one current again. Errors:
// ErrNoPrevious, ErrNoFiles, ErrChanged.
func (o Operator) Rollback(ctx context.Context, by, reason string) (Current, error) {
	current, err := o.Currents.Current(ctx)
	if err != nil {
		return Current{}, err
	}
	if len(current.Previous) == 0 {
		return Current{}, ErrNoPrevious
	}
	last := len(current.Previous) - 1
	back := current.Previous[last]
	if err := o.servable(ctx, back); err != nil {
		return Current{}, err
	}
	if reason == "" {
		reason = "rolled back from " + current.Version
	}
	next := Current{Version: back, Since: time.Now().UTC(), By: by, Reason: reason, Previous: current.Previous[:last],
		Anchor: back, Revision: current.Revision}
	return o.set(ctx, next, EventRolledBack)
}

func (o Operator) set(ctx context.Context, next Current, kind EventKind) (Current, error) {
	stored, err := o.Currents.SetCurrent(ctx, next)
	if err != nil {
		return Current{}, err
	}
	o.Metrics.changed(kind)
	return stored, o.Journal.Publish(ctx, Event{
		Kind: kind, Time: time.Now().UTC(), Replica: o.Replica, Version: stored.Version, By: stored.By, Reason: stored.Reason,
		Key: fmt.Sprint("current.", stored.Revision),
	})
}

// servable checks that every replica can load a version.
func (o Operator) servable(ctx context.Context, version string) error {
	m, err := o.Models.Model(ctx, version)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", version, err)
	case m.State == StateInitial || len(m.Files) > 0:
		return nil
	}
	return fmt.Errorf("%s is %s: %w", version, m.State, ErrNoFiles)
}

// Start requests a training run. A replica starts it as soon as no other run is in
// progress and there is enough data.
func (o Operator) Start(ctx context.Context, request TrainingRequest) (Status, error) {
	request.Time = time.Now().UTC()
	for {
		status, err := o.Statuses.Status(ctx)
		if err != nil {
			return Status{}, err
		}
		if status.Phase == "" {
			status.Phase = PhaseIdle
		}
		status.Requested = &request
		status, err = o.Statuses.SetStatus(ctx, status)
		if !errors.Is(err, ErrChanged) {
			return status, err
		}
	}
}

// Stop cancels the training run in progress, whose owner ends it at its next
// heartbeat, or withdraws the request for one. id is that of the run; "": any. A run
// that is canceled is never promoted; its labels count as new. Errors: ErrNoTraining;
// ErrChanged when the run has another id or is being published.
func (o Operator) Stop(ctx context.Context, id string, c Cancellation) (Status, error) {
	c.Time = time.Now().UTC()
	for {
		status, err := o.Statuses.Status(ctx)
		if err != nil {
			return Status{}, err
		}
		idle := status.Phase == PhaseIdle || status.Phase == ""
		switch {
		case idle && (status.Requested == nil || id != ""):
			return Status{}, ErrNoTraining
		case idle:
			status.Requested = nil
		case id != "" && id != status.ID:
			return Status{}, fmt.Errorf("training run %s is in progress, not %s: %w", status.ID, id, ErrChanged)
		case status.Canceled != nil:
			return status, nil
		case status.Phase == PhasePublishing:
			return Status{}, fmt.Errorf("the gate of training run %s has passed and its candidate is being published; roll it back instead: %w", status.ID, ErrChanged)
		default:
			status.Canceled = &c
		}
		status, err = o.Statuses.SetStatus(ctx, status)
		if errors.Is(err, ErrChanged) {
			continue
		}
		if err == nil && idle {
			err = o.Journal.Publish(ctx, Event{
				Kind: EventTrainingCanceled, Time: c.Time, Replica: o.Replica, By: c.By, Reason: "the request is withdrawn: " + c.reason(),
				Key: fmt.Sprint("withdrawn.", status.Revision),
			})
		}
		return status, err
	}
}
