package retrain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/rewardmodel/feedback"
)

// reject records a candidate that may not serve.
func (t *trainingRun) reject(ctx context.Context, m Model) (Outcome, error) {
	m.State = StateRejected
	if err := t.register(ctx, m); err != nil {
		return Outcome{}, err
	}
	// An earlier attempt may have stored them.
	if err := t.Models.Remove(ctx, m.Version); err != nil {
		return Outcome{}, err
	}
	out := Outcome{Result: ResultRejected, Version: m.Version, Reason: m.Reason, Through: m.Data.Through}
	t.log.Warn().Str("version", m.Version).Str("reason", m.Reason).Msg("the candidate is rejected")
	return out, t.emit(ctx, Event{Kind: EventRejected, Version: m.Version, Reason: m.Reason, Details: m.Gate, Key: t.id + ".rejected"})
}

// register records a model once; an earlier attempt of the same run may have done it.
func (t *trainingRun) register(ctx context.Context, m Model) error {
	err := t.Models.Register(ctx, m)
	if !errors.Is(err, ErrExists) {
		return err
	}
	have, err := t.Models.Model(ctx, m.Version)
	if err != nil {
		return err
	}
	if have.Data == nil || have.Data.Training != t.id {
		return fmt.Errorf("registering %s: %w, from another training run", m.Version, ErrExists)
	}
	if have.State == m.State {
		return nil
	}
	return t.Models.Update(ctx, m) // an earlier attempt stored it as promoted, and now it is rejected
}

// publish stores the candidate, verifies that the stored files can serve, and makes
// it current, unless the current version changed since the training run started. A
// candidate that an earlier attempt made current stays promoted when an operator has
// promoted another version after it, since it is what a rollback returns to.
func (t *trainingRun) publish(ctx context.Context, j *job, m Model, better bool) (Outcome, error) {
	if err := t.phase(ctx, PhasePublishing); err != nil {
		return Outcome{}, err
	}
	current, err := t.Currents.Current(ctx)
	if err != nil {
		return Outcome{}, err
	}
	if current.Version != m.Version && !slices.Contains(current.Previous, m.Version) {
		if current.Version != j.Base {
			m.Reason = fmt.Sprintf("%[2]s became current while the candidate was trained and compared with %[1]s", j.Base, current.Version)
			return t.reject(ctx, m)
		}
		// The base may be current again, as after a rollback of this candidate, which an earlier attempt
		// made current.
		if j.Revision != 0 && current.Revision != j.Revision {
			m.Reason = fmt.Sprintf("%s became current again after the training run had started (by %s: %s)", j.Base, current.By, current.Reason)
			return t.reject(ctx, m)
		}
		m.State = StatePromoted
		if m.Files, err = t.Models.Upload(ctx, m.Version, t.path(candidateName)); err != nil {
			return Outcome{}, err
		}
		if err := t.Directories.Verify(ctx, m); err != nil {
			return Outcome{}, fmt.Errorf("the stored candidate %s: %w", m.Version, err)
		}
		if err := t.register(ctx, m); err != nil {
			return Outcome{}, err
		}
		// Another holder of the lease would have changed the status.
		if err := t.lease.update(ctx, func(*Status) {}); err != nil {
			return Outcome{}, err
		}
		next := current.next(m.Version, "gate", m.Reason)
		if !better {
			next.Anchor = current.anchor()
		}
		if _, err := t.Currents.SetCurrent(ctx, next); err != nil {
			return Outcome{}, err // ErrChanged: the next attempt checks again
		}
	}
	labels, err := feedback.LoadLabels(j.Holdout, j.HoldoutAspects)
	if err != nil {
		return Outcome{}, err
	}
	if err := t.Holdout.Freeze(ctx, labels, m.Version); err != nil {
		return Outcome{}, err
	}
	details, err := json.Marshal(m.Data)
	if err != nil {
		return Outcome{}, err
	}
	t.log.Info().Str("version", m.Version).Str("reason", m.Reason).Msg("promoted")
	promoted := Event{Kind: EventPromoted, Version: m.Version, By: "gate", Reason: m.Reason, Details: jsontext.Value(details), Key: t.id + ".promoted"}
	if err := t.emit(ctx, promoted); err != nil {
		return Outcome{}, err
	}
	out := Outcome{Result: ResultPromoted, Version: m.Version, Reason: m.Reason, Through: m.Data.Through}
	return out, retire(ctx, t.Models, t.Currents, t.cfg.Keep)
}

// maxPrevious is the maximum number of rollbacks.
const maxPrevious = 20

// Needed returns the versions whose files must stay: the current one, the best so far, if known, and the targets of the
// next two rollbacks.
func (c Current) Needed() []string {
	return append([]string{c.Version, c.Anchor}, c.Previous[max(0, len(c.Previous)-2):]...)
}

// anchor is the best version so far.
func (c Current) anchor() string { return cmp.Or(c.Anchor, c.Version) }

// next makes version current after c, and the anchor.
func (c Current) next(version, by, reason string) Current {
	previous := slices.Clone(c.Previous)
	if c.Version != "" {
		previous = append(previous, c.Version)
	}
	previous = previous[max(0, len(previous)-maxPrevious):]
	return Current{Version: version, Since: time.Now().UTC(), By: by, Reason: reason, Previous: previous, Anchor: version, Revision: c.Revision}
}

// retire deletes the files of promoted versions beyond the newest keep, except those that are needed.
func retire(ctx context.Context, models Models, currents Currents, keep int) error {
	current, err := currents.Current(ctx)
	if err != nil {
		return err
	}
	all, err := models.Models(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b Model) int { return b.Created.Compare(a.Created) })
	kept := 0
	for _, m := range all {
		if m.State != StatePromoted || len(m.Files) == 0 {
			continue
		}
		if kept++; kept <= keep || slices.Contains(current.Needed(), m.Version) {
			continue
		}
		m.State, m.Files = StateRetired, nil
		if err := errors.Join(models.Update(ctx, m), models.Remove(ctx, m.Version)); err != nil {
			return err
		}
	}
	return nil
}
