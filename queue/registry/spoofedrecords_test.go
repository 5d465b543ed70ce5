package registry_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/jstest"
	"assay/queue/labels"
	"assay/queue/labels/labelstest"
	"assay/queue/queuetest"
	"assay/queue/registry"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/retrain"
)

// A value that another client overwrites is read as it was and restored, even if the
// stream no longer has it.
func TestStateOfOthersIsIgnored(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	q := queuetest.Open(t, queuetest.Config(t))
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
	for name, write := range jstest.Spoofs(t, q.URL(), q.Conn()) {
		write(registry.SubjectState + "current")
		got, err := openRegistry(t, q).Current(ctx) // of a process without a cache
		same(name, got, err)
		require.True(t, jstest.LastAuthentic(t, q.Conn(), registry.SubjectState+"current"), "stored again")
	}
	for range 2 * 8 { // more than the bucket keeps
		_, err := jstest.JetStream(t, q.Conn()).Publish(ctx, registry.SubjectState+"current", []byte(`{"stream":"ASSAY_RESPONSES","seq":3}`))
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
	_, err = jstest.JetStream(t, q.Conn()).Publish(ctx, registry.SubjectState+"training", []byte(`{"phase":"training"}`))
	require.NoError(t, err)
	status, err := r.Status(ctx)
	require.NoError(t, err)
	require.Equal(t, retrain.Status{}, status)
	_, err = r.SetStatus(ctx, retrain.Status{Phase: retrain.PhaseTraining})
	require.NoError(t, err)
}

// Values of an earlier release have no HeaderRecord and are accepted.
func TestStateOfAnEarlierRelease(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	cfg := queuetest.Config(t)
	q := queuetest.Open(t, cfg)
	earlier := func(subject, id, body string) {
		_, err := jstest.JetStream(t, q.Conn()).PublishMsg(ctx, &nats.Msg{Subject: subject, Data: []byte(body), Header: nats.Header{jetstream.MsgIDHeader: {id}}})
		require.NoError(t, err)
	}
	earlier(registry.SubjectState+"current", "d3k0p2m3k9f1c8g7b5a0", `{"version":"v7"}`)
	earlier(labels.SubjectFeedback+".erased."+feedback.HashOf("gone").String(), "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "")
	earlier(registry.SubjectEvents+".promoted", "t1.promoted", `{"kind":"promoted","reason":"better"}`)
	r := openRegistry(t, q)
	current, err := r.Current(ctx)
	require.NoError(t, err)
	require.Equal(t, "v7", current.Version)
	require.Equal(t, []string{"better"}, reasons(take(t, r, 0, 1)))
	labelstest.CaughtUp(t, q.Labels())
	require.True(t, q.Labels().Index().Erased(feedback.HashOf("gone")))
}

// Spoofed objects and events do not change files of a model or the event log.
func TestObjectsAndEventsOfOthersAreIgnored(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	q := queuetest.Open(t, queuetest.Config(t))
	r := openRegistry(t, q)
	require.NoError(t, r.PutObject(ctx, "file", []byte("content")))
	require.NoError(t, r.Publish(ctx, retrain.Event{Kind: retrain.EventTrained, Reason: "first"}))
	for name, write := range jstest.Spoofs(t, q.URL(), q.Conn()) {
		write(registry.SubjectNames + registry.EncodeName("file"))
		write(registry.SubjectNames + registry.EncodeName("another"))
		write(registry.SubjectEvents + ".promoted")
		got, err := openRegistry(t, q).GetObject(ctx, "file")
		require.NoError(t, err, name)
		require.Equal(t, "content", string(got))
		require.True(t, jstest.LastAuthentic(t, q.Conn(), registry.SubjectNames+registry.EncodeName("file")), "stored again")
		info, err := r.ObjectInfo(ctx, "another")
		require.NoError(t, err)
		require.Nil(t, info)
		require.Equal(t, []string{"first"}, reasons(authenticEvents(t, r)))
	}
}

// A removed object stays removed, even if another client writes to its subject and a
// replica had it in memory.
func TestRemovedObjectIsNotRestored(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	q := queuetest.Open(t, queuetest.Config(t))
	remover, reader := openRegistry(t, q), openRegistry(t, q)
	require.NoError(t, remover.PutObject(ctx, "file", []byte("content")))
	exists := func(r *registry.Registry) bool {
		info, err := r.ObjectInfo(ctx, "file")
		require.NoError(t, err)
		return info != nil
	}
	require.True(t, exists(reader))
	require.NoError(t, remover.RemoveObject(ctx, "file"))
	require.False(t, exists(reader))
	_, err := jstest.JetStream(t, q.Conn()).Publish(ctx, registry.SubjectNames+registry.EncodeName("file"), []byte("{}"))
	require.NoError(t, err)
	require.False(t, exists(remover))
	require.False(t, exists(reader))
}

// authenticEvents are the stored events; each other message is an error with its
// sequence.
func authenticEvents(t *testing.T, r *registry.Registry) (events []retrain.Event) {
	t.Helper()
	last, err := r.LastEvent(jstest.Context(t))
	require.NoError(t, err)
	for e, err := range r.Events(jstest.Context(t), 0) {
		if err == nil {
			events = append(events, e)
		} else {
			require.ErrorIs(t, err, registry.ErrUnrecognizedEvent)
		}
		if e.Sequence == last {
			break
		}
	}
	return events
}
