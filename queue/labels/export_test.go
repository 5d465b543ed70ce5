package labels

import (
	"context"

	"assay/rewardmodel/feedback"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Access to internals for package labels_test.
type (
	Verdict   = verdict
	Candidate = candidate
	Write     = write
)

const (
	SubjectRecords = subjectRecords
	MinBatch       = minBatch
	MaxAttempts    = maxAttempts
)

// DisableBatches stores each label as a separate message.
func (l *Log) DisableBatches() { l.commits = nil }

// ScoredWithin returns the ids of the last n scored responses that fit into room, in
// bytes, oldest first, and the room that is left.
func (l *Log) ScoredWithin(ctx context.Context, n, room int) (ids []string, left int, err error) {
	info, err := l.scored.Info(ctx)
	if err != nil {
		return nil, 0, err
	}
	responses, left, err := l.scoredBetween(ctx, info.State.FirstSeq, info.State.LastSeq, n, room)
	for _, r := range responses {
		ids = append(ids, r.Item.ID)
	}
	return ids, left, err
}

func RecordSubject(id, rater feedback.Hash) string { return recordSubject(id, rater) }
func SetMark(header nats.Header, m feedback.Mark)  { setMark(header, m) }
func TombstoneSubject(id feedback.Hash) string     { return tombstoneSubject(id) }

func (l *Log) SetPublish(f func(context.Context, *nats.Msg, ...jetstream.PublishOpt) (*jetstream.PubAck, error)) {
	l.publish = f
}

func (l *Log) SetPublishBatch(f func(context.Context, []*nats.Msg) (uint64, error)) {
	l.publishBatch = f
}

func (l *Log) Publish() func(context.Context, *nats.Msg, ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	return l.publish
}

func (l *Log) PublishBatch() func(context.Context, []*nats.Msg) (uint64, error) {
	return l.publishBatch
}
func (l *Log) Stream() jetstream.Stream       { return l.stream }
func (l *Log) ScoredStream() jetstream.Stream { return l.scored }

func (l *Log) RecordsOf(ctx context.Context, id string) (map[string]uint64, error) {
	return l.recordsOf(ctx, feedback.HashOf(id))
}

// Expire removes the records that are too old, by the time of info.
func (l *Log) Expire(ctx context.Context, info *jetstream.StreamInfo) error {
	return (&indexer{Log: l}).expire(ctx, info)
}

func (l *Log) Candidates(ctx context.Context, batch feedback.Batch, verdicts []Verdict) ([]*Candidate, error) {
	return l.candidates(ctx, batch.Items, "", verdicts)
}

// Chunk returns the number of writes in a chunk, and the candidates that are left.
func (l *Log) Chunk(from []*Candidate, verdicts []Verdict) (writes int, left []*Candidate) {
	c, left := l.chunk(from, verdicts)
	return len(c.writes), left
}

func (l *Log) Prepare(c *Candidate) *Write {
	w, _ := l.prepare(c)
	return w
}

// SetFound sets the sequence that the server has in the place of a candidate of an id
// that the index does not know.
func (c *candidate) SetFound(found uint64) {
	c.condition = condition{compared: recordSubjects(c.mark.ID), first: true, found: &found}
}

func (c *candidate) Found() *uint64 { return c.found }

func (l *Log) Refresh(ctx context.Context, c *Candidate) error {
	_, err := l.refresh(ctx, c)
	return err
}

func (l *Log) StoreBatch(writes []*Write) { l.storeBatch(writes) }
func (w *write) Header() nats.Header      { return w.msg.Header }
func (w *write) Err() error               { return w.err }
