package labels_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/js"
	"assay/queue/internal/jstest"
	"assay/queue/labels"
	"assay/queue/labels/labelstest"
	"assay/queue/queuetest"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
)

// On a server without accounts, a tombstone that assay did not write erases
// nothing, and one that it wrote outlives being overwritten.
func TestTombstonesOfOthersAreIgnored(t *testing.T) {
	t.Parallel()
	cfg := queuetest.Config(t)
	q := queuetest.Open(t, cfg)
	f := q.Labels()
	labelstest.Accepts(t, f, 10, 0, labelstest.Some(0, 10)...)
	_, err := f.Erase(t.Context(), "r9")
	require.NoError(t, err)
	for name, write := range jstest.Spoofs(t, q.URL(), q.Conn()) {
		write(labels.TombstoneSubject(feedback.HashOf("r1")))
		write(labels.TombstoneSubject(feedback.HashOf("r9")))
		labelstest.CaughtUp(t, f)
		require.False(t, f.Index().Erased(feedback.HashOf("r1")), name)
		require.Len(t, labelstest.Records(t, f), 9, name)
		require.Eventually(t, func() bool {
			msg, err := f.Stream().GetLastMsgForSubject(t.Context(), labels.TombstoneSubject(feedback.HashOf("r9")))
			return err == nil && js.Authentic(msg.Subject, msg.Header)
		}, jstest.Timeout, 5*time.Millisecond, "stored again")
	}
	queuetest.Close(t, q)

	f = queuetest.Open(t, cfg).Labels()
	labelstest.CaughtUp(t, f)
	require.False(t, f.Index().Erased(feedback.HashOf("r1")))
	require.True(t, f.Index().Erased(feedback.HashOf("r9")))
}

// A copy of another record is on the subject of a label. The label is stored
// nevertheless, as a separate message and in a batch.
func TestLabelsInPlaceOfUnrecognizedRecords(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	q := queuetest.Open(t, queuetest.Config(t))
	f := q.Labels()
	labelstest.Accepts(t, f, 1, 0, labelstest.Labeled("copied", bag.Violation))
	record, err := jstest.LastOf(t, q.Conn(), labels.RecordSubject(feedback.HashOf("copied"), feedback.HashOf("")))
	require.NoError(t, err)
	for name, value := range map[string]string{ // as a direct get returns it
		jetstream.StreamHeader: labels.StreamFeedback, jetstream.SubjectHeader: record.Subject,
		jetstream.SequenceHeader: fmt.Sprint(record.Sequence), jetstream.TimeStampHeaer: record.Time.Format(time.RFC3339Nano),
	} {
		record.Header.Set(name, value)
	}
	for i := range 2 + labels.MinBatch {
		msg := &nats.Msg{Subject: labels.RecordSubject(feedback.HashOf(fmt.Sprint("r", i)), feedback.HashOf("")), Header: maps.Clone(record.Header), Data: record.Data}
		msg.Header.Set(jetstream.MsgIDHeader, fmt.Sprint("spoofed ", i))
		msg.Header.Del(jetstream.ExpectedLastSubjSeqSubjHeader)
		if i%2 == 0 { // the others keep the headers of the direct get
			maps.DeleteFunc(msg.Header, func(name string, _ []string) bool {
				return strings.HasPrefix(name, "Nats-") && name != jetstream.MsgIDHeader
			})
		}
		_, err := jstest.JetStream(t, q.Conn()).PublishMsg(ctx, msg)
		require.NoError(t, err)
	}
	labelstest.Accepts(t, f, 1, 0, labelstest.Some(0, 1)...)
	labelstest.Accepts(t, f, labels.MinBatch, 0, labelstest.Some(1, labels.MinBatch)...)
	_, err = f.Erase(ctx, fmt.Sprint("r", 1+labels.MinBatch))
	require.NoError(t, err)
	require.Len(t, labelstest.Records(t, f), 2+labels.MinBatch, "the record that was copied is there")
}
