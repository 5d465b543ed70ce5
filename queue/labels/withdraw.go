package labels

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"assay/queue/internal/js"
	"assay/rewardmodel/feedback"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Withdraw removes the label of one rater for a response: a record without a text
// replaces it, under the condition that it is still the last of its response and
// rater. It returns the number of labels that it has withdrawn, 0 or 1. A label that
// the rater gave earlier is not accepted from then on if it has a time, so that a
// delayed retry of it does not undo the withdrawal. A damaged label whose headers can
// be read is withdrawn too. by is who withdraws it, the sender of the record that is
// left. Its error wraps
// feedback.ErrStoreFull or feedback.ErrUnavailable, or is that of ctx; withdrawing
// again is safe.
func (l *Log) Withdraw(ctx context.Context, id, rater, by string) (records int, err error) {
	if err := l.await(ctx, 0); err != nil {
		return 0, err
	}
	hash := feedback.HashOf(id)
	subject, token := recordSubject(hash, feedback.HashOf(rater)), rand.Text()
	delays := js.Backoff{Base: backoff().Base / 10, Max: backoff().Max}
	for round := range uint64(maxRounds) {
		latest, err := l.latest(ctx, subject)
		if err != nil {
			return 0, err
		}
		if !latest.unrecognized {
			l.Index().Apply(latest.mark)
		}
		if l.Index().Erased(hash) {
			return 0, nil
		}
		if withdrawn := latest.mark.Labels.Withdrawn(); !latest.damaged && (latest.unrecognized || withdrawn) {
			if !latest.unrecognized && strings.HasPrefix(latest.id, token) { // the acknowledgement was lost
				return 1, nil
			}
			records, err = 0, l.confirm(ctx, subject, latest.mark.Sequence)
		} else {
			latest.mark.Sender = feedback.SenderOf(by)
			records, err = 1, l.putWithdrawal(ctx, subject, latest.mark, token+"."+strconv.FormatUint(round, 10))
		}
		if !js.WrongSequence(err) {
			return records, err
		}
		js.Sleep(ctx, delays.Delay(round+1)) // a replica of the stream may be behind its leader
	}
	return 0, unavailable(ctx, fmt.Errorf("response %.80q: other clients keep storing labels of this rater", id))
}

// confirm returns nil if a subject has no message after a sequence, 0 for none at all, and
// otherwise an error that satisfies js.WrongSequence. What a server of a cluster replies to
// a read may be out of date: it can be behind its leader, or take itself for the leader
// after the others have elected another one. So confirm stores a message under that
// condition, which needs a majority of the servers.
func (l *Log) confirm(ctx context.Context, subject string, last uint64) error {
	cfg := l.stream.CachedInfo().Config
	if cfg.Replicas <= 1 || !cfg.AllowAtomicPublish { // servers before 2.11 ignore the condition
		return nil
	}
	msg := &nats.Msg{Subject: subjectConfirmed, Header: nats.Header{}}
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(last, 10))
	msg.Header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, subject)
	_, err := l.put(ctx, msg)
	return err
}

// putWithdrawal replaces the record of a mark.
func (l *Log) putWithdrawal(ctx context.Context, subject string, mark feedback.Mark, id string) error {
	last := mark.Sequence
	mark.Labels = feedback.Labels{}
	if mark.Time != nil { // by the rater's clock, which the next label has too
		at := mark.Time.Add(1)
		mark.Time = &at
	}
	msg := &nats.Msg{Subject: subject, Header: nats.Header{}}
	setMark(msg.Header, mark)
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(last, 10))
	msg.Header.Set(jetstream.MsgIDHeader, id)
	js.Seal(msg.Subject, msg.Header, nil)
	sequence, err := l.put(ctx, msg)
	if err != nil {
		return err
	}
	mark.Sequence = sequence
	l.Index().Apply(mark)
	return nil
}

// LabelsOf returns the labels of a response that are in force, by rater, without the
// majority. Its error wraps feedback.ErrUnavailable, or is that of ctx.
func (l *Log) LabelsOf(ctx context.Context, id string) (feedback.ResponseLabels, error) {
	out := feedback.ResponseLabels{ID: id, Labels: []feedback.RaterLabel{}}
	if err := l.CaughtUp(ctx); err != nil {
		return out, err
	}
	hash := feedback.HashOf(id)
	if l.Index().Erased(hash) {
		return out, nil
	}
	last := l.Index().Last()
	for from := uint64(1); from <= last && len(out.Labels) < feedback.MaxRaterLabels; {
		// One by one, without a consumer, since most responses have few labels.
		stored, err := js.FirstFrom(ctx, l.stream, recordSubjects(hash), from)
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && stored.Sequence > last {
			break
		}
		if err != nil {
			return out, unavailable(ctx, fmt.Errorf("reading stream %s: %w", StreamFeedback, js.Explain(err)))
		}
		from = stored.Sequence + 1
		msg := js.Message{Sequence: stored.Sequence, Subject: stored.Subject, Header: stored.Header, Data: stored.Data, Time: stored.Time}
		if !l.intact(l.stream, msg) || !js.Authentic(msg.Subject, msg.Header) || msg.Header.Get(HeaderLabel) == labelWithdrawn {
			continue
		}
		r, err := feedback.ParseRecord(msg.Data)
		if err != nil {
			continue // Records logs it
		}
		out.Labels = append(out.Labels, feedback.RaterLabel{Rater: r.Bag.Rater, Labels: feedback.LabelsOf(r.Bag),
			Time: r.Bag.Time, Received: r.Received, Sequence: msg.Sequence})
	}
	return out, nil
}
