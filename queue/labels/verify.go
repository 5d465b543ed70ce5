package labels

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"assay/queue/internal/js"
	"assay/rewardmodel/feedback"
)

// Verify reads every record, verifies its checksums, and reports the damaged ones. Its
// error wraps feedback.ErrUnavailable, or is that of ctx.
func (l *Log) Verify(ctx context.Context) (feedback.Verification, error) {
	return l.verify(ctx, func(js.Message) error { return nil })
}

// verify calls intact with each record that is intact, in order.
func (l *Log) verify(ctx context.Context, intact func(js.Message) error) (feedback.Verification, error) {
	v := feedback.Verification{Damaged: []feedback.DamagedRecord{}}
	erased := l.cfg.Damage.Erased(StreamFeedback)
	unreadable, err := l.verifyStored(ctx, &v, func(msg js.Message) error {
		erased = slices.DeleteFunc(erased, func(r js.DamagedRecord) bool { return r.Subject == msg.Subject }) // there is another
		return intact(msg)
	})
	lost, lostErr := js.ReportLost(ctx, l.nc, l.cfg.Domain, StreamFeedback, l.cfg.Damage) // last: the server finds it out when it reads
	if err != nil {
		return v, err
	}
	if lostErr != nil {
		return v, unavailable(ctx, lostErr)
	}
	for _, sequence := range unreadable {
		v.AddDamaged(feedback.DamagedRecord{Sequence: sequence, Reason: "the NATS server cannot read it"})
	}
	for _, r := range erased {
		v.AddDamaged(feedback.DamagedRecord{Sequence: r.Sequence, Reason: "it was damaged, and was erased"})
	}
	for _, sequence := range lost {
		if !slices.Contains(unreadable, sequence) {
			v.AddDamaged(feedback.DamagedRecord{Sequence: sequence, Reason: "the NATS server has lost it"})
		}
	}
	if v.DamagedCount > 0 {
		return v, nil // which may be all that is missing
	}
	lacks, err := l.compareExtent(ctx)
	if err != nil {
		return v, unavailable(ctx, err)
	}
	if lacks != "" {
		v.AddDamaged(feedback.DamagedRecord{Reason: lacks})
	}
	return v, nil
}

// verifyStored verifies what the server can read, and returns the sequences of what it cannot.
func (l *Log) verifyStored(ctx context.Context, v *feedback.Verification, intact func(js.Message) error) (damaged []uint64, err error) {
	info, err := l.info(ctx)
	if err != nil {
		return nil, unavailable(ctx, fmt.Errorf("stream %s: %w", StreamFeedback, js.Explain(err)))
	}
	v.Through = info.State.LastSeq // of a deleted message too
	var gaps []js.Gap
	next := uint64(1)
	for msg, err := range l.scan(ctx, l.stream, SubjectFeedback+".>", 1, v.Through) {
		if err != nil {
			return nil, err
		}
		if msg.Sequence > next {
			gaps = append(gaps, js.Gap{First: next, Last: msg.Sequence - 1})
		}
		next = msg.Sequence + 1
		if l.verifyRecord(msg, v) {
			if err := intact(msg); err != nil {
				return nil, err
			}
		}
	}
	if next <= v.Through {
		gaps = append(gaps, js.Gap{First: next, Last: v.Through})
	}
	damaged, err = js.Unreadable(ctx, l.stream, gaps)
	if err != nil {
		return nil, unavailable(ctx, fmt.Errorf("stream %s: %w", StreamFeedback, js.Explain(err)))
	}
	for _, sequence := range damaged {
		l.cfg.Damage.Report(js.DamagedRecord{Stream: StreamFeedback, Sequence: sequence})
	}
	return damaged, nil
}

// verifyRecord counts one message, and reports whether it is an intact record.
func (l *Log) verifyRecord(msg js.Message, v *feedback.Verification) bool {
	if msg.Subject == subjectConfirmed {
		return false
	}
	sealed, err := js.Verify(msg.Subject, msg.Header, msg.Data)
	tombstone := strings.HasPrefix(msg.Subject, subjectTombstones+".")
	withdrawn := msg.Header.Get(HeaderLabel) == labelWithdrawn
	switch {
	case err != nil:
	case !js.Authentic(msg.Subject, msg.Header):
		v.Unrecognized++
		return false
	case tombstone || withdrawn:
	default:
		_, err = feedback.ParseRecord(msg.Data)
	}
	switch {
	case err != nil:
		l.cfg.Damage.Report(js.DamagedRecord{Stream: StreamFeedback, Subject: msg.Subject, Sequence: msg.Sequence})
		v.AddDamaged(feedback.DamagedRecord{Sequence: msg.Sequence, Reason: err.Error()})
		return false
	case tombstone:
		v.Erasures++
	case withdrawn:
		v.Withdrawn++
	default:
		v.Labels++
	}
	if !sealed {
		v.Unverified++
	}
	return true
}

// reportLost reports the records that the server has lost.
func (l *Log) reportLost(ctx context.Context) {
	if _, err := js.ReportLost(ctx, l.nc, l.cfg.Domain, StreamFeedback, l.cfg.Damage); err != nil && ctx.Err() == nil {
		l.log.Debug().Err(err).Msg("cannot read what the server has lost")
	}
}
