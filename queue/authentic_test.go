package queue

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/retrain"
)

func TestAuthenticMessages(t *testing.T) {
	t.Parallel()
	const subject = "$KV.ASSAY_STATE.current"
	for name, c := range map[string]struct {
		header nats.Header
		want   bool
	}{
		"signed":                     {nats.Header{HeaderRecord: {subject}, jetstream.MsgIDHeader: {"a b"}}, true},
		"signed for another subject": {nats.Header{HeaderRecord: {subject + "x"}, jetstream.MsgIDHeader: {"d3k0p2m3k9f1"}}, false},
		"of an earlier release":      {nats.Header{jetstream.MsgIDHeader: {"d3k0p2m3k9f1"}}, true},
		"acknowledgement, reply":     {nil, false},
		"reply of the service":       {nats.Header{HeaderModelVersion: {"v1"}}, false},
		"delivered reward":           {nats.Header{jetstream.MsgIDHeader: {responseKey("run7", "id", time.Time{}, 1)}}, false},
		"delivered reward, no id":    {nats.Header{jetstream.MsgIDHeader: {responseKey("run7", "", time.Time{}, 1)}}, false},
		"deleted by a tool":          {nats.Header{kvOperation: {"DEL"}}, true},
		"written by a tool":          {nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject}}, true},
	} {
		require.Equal(t, c.want, authentic(subject, c.header), name)
	}
}

// A request whose reply would go to a subject of assay is neither answered nor
// carried out.
func TestRepliesGoToInboxesOnly(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	q := startQueue(t, testConfig(t), scorerFunc(good))
	f := q.Feedback()
	accepts(t, f, 1, 0, labelled("r1", bag.Violation))
	nc, err := nats.Connect(q.URL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	arrived := make(chan *nats.Msg, 100)

	body := map[string]string{SubjectScore: `{"responses":[{"response":"x"}]}`, SubjectFeedback: `{"items":[{"id":"new","label":"violation","response":"x"}]}`}
	targets := []string{tombstoneSubject(feedback.HashOf("r1")), recordSubject(feedback.HashOf("r1"), feedback.HashOf("")), stateSubject + keyCurrent,
		SubjectRewards + ".victim", SubjectDead + ".invalid", SubjectEvents + ".promoted", SubjectResponses + ".x", objectSubject + "x", "app.inbox.1", "INBOX.1"}
	for _, target := range targets {
		_, err := nc.ChanSubscribe(target, arrived)
		require.NoError(t, err)
	}
	for subject, body := range body {
		for _, target := range targets {
			require.NoError(t, nc.PublishRequest(subject, target, []byte(body)))
		}
		for _, prefix := range []string{"_INBOX", "_INBOX_labels"} { // of clients as they are documented
			client, err := nats.Connect(q.URL(), nats.CustomInboxPrefix(prefix))
			require.NoError(t, err)
			t.Cleanup(client.Close)
			_, err = client.RequestWithContext(ctx, subject, []byte(`{"items":[]}`))
			require.NoError(t, err)
		}
	}
	require.NoError(t, nc.Flush())
	ignored := func(code string) float64 {
		return testutil.ToFloat64(q.metrics.requests.WithLabelValues(code)) + testutil.ToFloat64(q.metrics.batches.WithLabelValues(code))
	}
	require.Eventually(t, func() bool { return ignored("400") >= float64(2*len(targets)) }, patience, 5*time.Millisecond)
	require.NoError(t, q.Drain(ctx)) // everything is answered
	require.NoError(t, nc.Flush())
	require.Empty(t, arrived)
	caughtUp(t, f)
	require.False(t, f.Index().Erased(feedback.HashOf("r1")))
	require.Len(t, records(t, f), 1, "and nothing is stored")

	for _, reply := range []string{"", "_INBOX.x.1", "_INBOX_app.x", "_R_.ab.1", "_GR_.ab.cd._INBOX.x"} {
		require.True(t, repliable(reply), reply)
	}
}

// deputies write to a subject of assay what a client that may not publish there
// can have written there.
func deputies(t *testing.T, q *Queue) map[string]func(target string) {
	ctx := within(t)
	nc, err := nats.Connect(q.URL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	number := 0
	return map[string]func(string){
		"acknowledgement": func(target string) {
			before := lastSequence(t, q, target)
			require.NoError(t, nc.PublishRequest(SubjectResponses+".x", target, []byte(item("x"))))
			require.Eventually(t, func() bool { return lastSequence(t, q, target) > before }, patience, 5*time.Millisecond, target)
		},
		// As a consumer would deliver a reward. nats-server 2.15 does not let a
		// stream store what a consumer delivers.
		"delivery": func(target string) {
			number++
			_, err := q.js.PublishMsg(ctx, &nats.Msg{Subject: target, Data: []byte(`{"id":"r"}`),
				Header: nats.Header{jetstream.MsgIDHeader: {responseKey("run7", fmt.Sprint("run7/r", number), time.Time{}, 1)}}})
			require.NoError(t, err)
		},
	}
}

// On a server without accounts, a tombstone that assay did not write erases
// nothing, and one that it wrote outlives being overwritten.
func TestTombstonesOfOthersAreIgnored(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	q := openQueue(t, cfg)
	f := q.Feedback()
	accepts(t, f, 10, 0, some(0, 10)...)
	_, err := f.Erase(t.Context(), "r9")
	require.NoError(t, err)
	for name, write := range deputies(t, q) {
		write(tombstoneSubject(feedback.HashOf("r1")))
		write(tombstoneSubject(feedback.HashOf("r9")))
		caughtUp(t, f)
		require.False(t, f.Index().Erased(feedback.HashOf("r1")), name)
		require.Len(t, records(t, f), 9, name)
		require.Eventually(t, func() bool {
			msg, err := f.stream.GetLastMsgForSubject(t.Context(), tombstoneSubject(feedback.HashOf("r9")))
			return err == nil && authentic(msg.Subject, msg.Header)
		}, patience, 5*time.Millisecond, "stored again")
	}
	closeQueue(t, q)

	f = openQueue(t, cfg).Feedback()
	caughtUp(t, f)
	require.False(t, f.Index().Erased(feedback.HashOf("r1")))
	require.True(t, f.Index().Erased(feedback.HashOf("r9")))
}

// A value that somebody overwrites is read as it was, and is stored again, also
// when nothing of it is left in the stream.
func TestStateOfOthersIsIgnored(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	q := openQueue(t, testConfig(t))
	r := openRegistry(t, q)
	want, err := r.SetCurrent(ctx, retrain.Current{Version: "v1"})
	require.NoError(t, err)
	want.Version, want.Previous = "v2", []string{"v1"}
	want, err = r.SetCurrent(ctx, want)
	require.NoError(t, err)
	values := r.WatchCurrent(ctx)
	require.Equal(t, "v2", (<-values).Version)
	same := func(name string, got retrain.Current, err error) retrain.Current {
		require.NoError(t, err, name)
		revision := got.Revision
		got.Revision = want.Revision
		require.Equal(t, want, got, name)
		got.Revision = revision
		return got
	}
	for name, write := range deputies(t, q) {
		write(stateSubject + keyCurrent)
		got, err := openRegistry(t, q).Current(ctx) // of a process that knows nothing yet
		same(name, got, err)
		require.True(t, authenticLast(t, q, stateSubject+keyCurrent), "stored again")
	}
	for range 2 * stateHistory { // more than the bucket keeps
		_, err := q.js.Publish(ctx, stateSubject+keyCurrent, []byte(`{"stream":"ASSAY_RESPONSES","seq":3}`))
		require.NoError(t, err)
	}
	got, err := r.Current(ctx)
	got = same("flood", got, err)
	got.Version = "v3"
	got, err = r.SetCurrent(ctx, got)
	require.NoError(t, err, "its revision is that of the last message")
	for c := range values {
		require.Contains(t, []string{"v2", "v3"}, c.Version)
		if c.Revision == got.Revision {
			break
		}
	}

	// A key that assay never wrote does not exist, and can be written.
	_, err = q.js.Publish(ctx, stateSubject+keyTraining, []byte(`{"phase":"training"}`))
	require.NoError(t, err)
	status, err := r.Status(ctx)
	require.NoError(t, err)
	require.Equal(t, retrain.Status{}, status)
	_, err = r.SetStatus(ctx, retrain.Status{Phase: retrain.PhaseTraining})
	require.NoError(t, err)
}

// What an earlier release wrote has no HeaderRecord, and counts.
func TestStateOfAnEarlierRelease(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	cfg := testConfig(t)
	q := openQueue(t, cfg)
	earlier := func(subject, id, body string) {
		_, err := q.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: []byte(body), Header: nats.Header{jetstream.MsgIDHeader: {id}}})
		require.NoError(t, err)
	}
	earlier(stateSubject+keyCurrent, "d3k0p2m3k9f1c8g7b5a0", `{"version":"v7"}`)
	earlier(tombstoneSubject(feedback.HashOf("gone")), "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "")
	earlier(SubjectEvents+".promoted", "t1.promoted", `{"kind":"promoted","reason":"better"}`)
	r := openRegistry(t, q)
	current, err := r.Current(ctx)
	require.NoError(t, err)
	require.Equal(t, "v7", current.Version)
	require.Equal(t, []string{"better"}, reasons(take(t, r, 0, 1)))
	caughtUp(t, q.Feedback())
	require.True(t, q.Feedback().Index().Erased(feedback.HashOf("gone")))
}

// The files of a model, and what happened, are as they were.
func TestObjectsAndEventsOfOthersAreIgnored(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	q := openQueue(t, testConfig(t))
	r := openRegistry(t, q)
	require.NoError(t, r.objects.put(ctx, "file", bytes.NewReader([]byte("content")), nil))
	require.NoError(t, r.Publish(ctx, retrain.Event{Kind: retrain.EventTrained, Reason: "first"}))
	for name, write := range deputies(t, q) {
		write(objectSubject + encodeName("file"))
		write(objectSubject + encodeName("another"))
		write(SubjectEvents + ".promoted")
		info, _, err := openRegistry(t, q).objects.info(ctx, "file")
		require.NoError(t, err, name)
		var got bytes.Buffer
		require.NoError(t, r.objects.read(ctx, info, &got))
		require.Equal(t, "content", got.String())
		require.True(t, authenticLast(t, q, objectSubject+encodeName("file")), "stored again")
		info, _, err = r.objects.info(ctx, "another")
		require.NoError(t, err)
		require.Nil(t, info)
		require.Equal(t, []string{"first"}, reasons(authenticEvents(t, r)))
	}
}

// What was removed stays removed, also when somebody writes in its place, and by
// a replica that knew it.
func TestRemovedObjectIsNotRestored(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	q := openQueue(t, testConfig(t))
	remover, reader := openRegistry(t, q).objects, openRegistry(t, q).objects
	require.NoError(t, remover.put(ctx, "file", bytes.NewReader([]byte("content")), nil))
	exists := func(o *objects) bool {
		info, _, err := o.info(ctx, "file")
		require.NoError(t, err)
		return info != nil
	}
	require.True(t, exists(reader))
	require.NoError(t, remover.remove(ctx, "file"))
	require.False(t, exists(reader))
	_, err := q.js.Publish(ctx, objectSubject+encodeName("file"), []byte("{}"))
	require.NoError(t, err)
	require.False(t, exists(remover))
	require.False(t, exists(reader))
}

// A copy of a record of another response is in the place of a label, which is
// stored all the same, as a message of its own and in a batch.
func TestLabelsInPlaceOfUnrecognizedRecords(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	q := openQueue(t, testConfig(t))
	f := q.Feedback()
	accepts(t, f, 1, 0, labelled("copied", bag.Violation))
	record, err := lastOf(t, q, recordSubject(feedback.HashOf("copied"), feedback.HashOf("")))
	require.NoError(t, err)
	require.NotEmpty(t, record.Header.Get(jetstream.SequenceHeader), "as a direct get returns it")
	for i := range 2 + commitLeast {
		msg := &nats.Msg{Subject: recordSubject(feedback.HashOf(fmt.Sprint("r", i)), feedback.HashOf("")), Header: maps.Clone(record.Header), Data: record.Data}
		msg.Header.Set(jetstream.MsgIDHeader, fmt.Sprint("forged ", i))
		if i%2 == 0 { // the others keep the headers of the direct get
			maps.DeleteFunc(msg.Header, func(name string, _ []string) bool {
				return strings.HasPrefix(name, "Nats-") && name != jetstream.MsgIDHeader
			})
		}
		_, err := q.js.PublishMsg(ctx, msg)
		require.NoError(t, err)
	}
	accepts(t, f, 1, 0, some(0, 1)...)
	accepts(t, f, commitLeast, 0, some(1, commitLeast)...)
	_, err = f.Erase(ctx, fmt.Sprint("r", 1+commitLeast))
	require.NoError(t, err)
	require.Len(t, records(t, f), 2+commitLeast, "the record that was copied is there")
}

// authenticEvents are the stored events; each other message is an error with its
// sequence.
func authenticEvents(t *testing.T, r *Registry) (events []retrain.Event) {
	t.Helper()
	last, err := r.LastEvent(within(t))
	require.NoError(t, err)
	for e, err := range r.Events(within(t), 0) {
		if err == nil {
			events = append(events, e)
		} else {
			require.ErrorIs(t, err, errForeignEvent)
		}
		if e.Sequence == last {
			break
		}
	}
	return events
}

func authenticLast(t *testing.T, q *Queue, subject string) bool {
	t.Helper()
	msg, err := lastOf(t, q, subject)
	require.NoError(t, err)
	return authentic(subject, msg.Header)
}

// lastSequence is that of the last message of a subject, 0 for none.
func lastSequence(t *testing.T, q *Queue, subject string) uint64 {
	t.Helper()
	msg, err := lastOf(t, q, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0
	}
	require.NoError(t, err)
	return msg.Sequence
}

func lastOf(t *testing.T, q *Queue, subject string) (*jetstream.RawStreamMsg, error) {
	t.Helper()
	ctx := within(t)
	name, err := q.js.StreamNameBySubject(ctx, subject)
	require.NoError(t, err)
	stream, err := q.js.Stream(ctx, name)
	require.NoError(t, err)
	return stream.GetLastMsgForSubject(ctx, subject)
}
