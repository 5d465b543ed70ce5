package queue

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// nothingOf waits until no message of an id but the tombstone is left.
func nothingOf(t *testing.T, f *Feedback, id string) {
	t.Helper()
	require.Eventually(t, func() bool {
		left, err := f.recordsOf(t.Context(), feedback.HashOf(id))
		return err == nil && len(left) == 0
	}, patience, 10*time.Millisecond)
}

func TestErase(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Streams.KeepScored = time.Hour
	q := openQueue(t, cfg)
	f := q.Feedback()
	const secret = "a sentence that nobody may find on the disk"
	labels := some(0, 50)
	for _, rater := range []string{"", "ann", "bob"} {
		labels = append(labels, bag.Bag{ID: "x", Label: bag.Violation, Response: secret, Rater: rater})
	}
	accepts(t, f, 53, 0, labels...) // as a batch, of which the server stages a copy
	require.NoError(t, f.Keep(t.Context(), []KeptResponse{kept("x", secret), kept("y", "another")}))
	require.True(t, onDisk(t, cfg, secret))

	n, err := f.Erase(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, 3, n)
	nothingOf(t, f, "x")
	require.True(t, f.Index().Erased(feedback.HashOf("x")))
	require.Len(t, records(t, f), 50)
	_, found, err := f.Kept(t.Context(), "x")
	require.NoError(t, err)
	require.False(t, found)

	rejects(t, f, feedback.CodeErased, "erased", labelled("x", bag.Violation))
	require.NoError(t, f.Keep(t.Context(), []KeptResponse{kept("x", secret)}), "left out")
	require.Equal(t, 1, count(t, q, StreamScored))

	// Again, and of what nobody knows.
	for _, id := range []string{"x", "unknown", "unknown"} {
		n, err = f.Erase(t.Context(), id)
		require.NoError(t, err)
		require.Zero(t, n)
	}
	rejects(t, f, feedback.CodeErased, "erased", labelled("unknown", bag.Violation))
	closeQueue(t, q)
	require.False(t, onDisk(t, cfg, secret), "overwritten")
}

// onDisk tells whether any file of the server holds the text.
func onDisk(t *testing.T, cfg Config, text string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(cfg.Server.DataDir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil
		}
		found = found || bytes.Contains(data, []byte(text))
		return err
	})
	require.NoError(t, err)
	return found
}

// One process erases while another stores labels of the same ids.
func TestEraseWhileAnotherReplicaAppends(t *testing.T) {
	t.Parallel()
	const ids = 20
	cfg := testConfig(t)
	cfg.Streams.KeepScored = time.Hour
	q := openQueue(t, cfg)
	f, other := q.Feedback(), replica(t, q, cfg).Feedback()
	ctx, stop := context.WithCancel(t.Context())
	var done sync.WaitGroup
	for rater := range 2 {
		done.Go(func() {
			for round := 0; ctx.Err() == nil; round++ {
				label := []bag.Label{bag.Violation, bag.Compliant}[round%2]
				for i := range ids {
					b := labelled(fmt.Sprint("e", i), label)
					b.Rater = fmt.Sprint(rater)
					_, err := other.Append(t.Context(), batchOf(b), "")
					require.NoError(t, err)
					require.NoError(t, other.Keep(t.Context(), []KeptResponse{kept(b.ID, b.Response)}))
				}
			}
		})
	}
	require.Eventually(t, func() bool { return count(t, q, StreamFeedback) == 2*ids }, patience, time.Millisecond)
	for i := range ids {
		_, err := f.Erase(t.Context(), fmt.Sprint("e", i))
		require.NoError(t, err)
	}
	stop()
	done.Wait()
	for i := range ids {
		nothingOf(t, f, fmt.Sprint("e", i))
	}
	require.Eventually(t, func() bool { return count(t, q, StreamScored) == 0 }, patience, 10*time.Millisecond)
	require.Equal(t, ids, count(t, q, StreamFeedback), "the tombstones")
	caughtUp(t, f)
	caughtUp(t, other)
	require.Empty(t, contents(f.Index()))
	require.Empty(t, contents(other.Index()))
}

// A process dies between the tombstone and the removal of what it stands for.
func TestErasureIsEndedAfterARestart(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	q := openQueue(t, cfg)
	accepts(t, q.Feedback(), 10, 0, some(0, 10)...)
	q.Feedback().close()
	tombstone := &nats.Msg{Subject: tombstoneSubject(feedback.HashOf("r4")), Header: nats.Header{}}
	sign(tombstone.Subject, tombstone.Header)
	_, err := q.js.PublishMsg(t.Context(), tombstone)
	require.NoError(t, err)
	require.Equal(t, 11, count(t, q, StreamFeedback))
	closeQueue(t, q)

	q = openQueue(t, cfg)
	require.Len(t, records(t, q.Feedback()), 9)
	nothingOf(t, q.Feedback(), "r4")
}

// Records come of age, and tombstones do not.
func TestFeedbackExpires(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Streams.FeedbackMaxAge = 2 * time.Second
	q := openQueue(t, cfg)
	f := q.Feedback()
	accepts(t, f, 10, 0, some(0, 10)...)
	_, err := f.Erase(t.Context(), "r1")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return count(t, q, StreamFeedback) == 1 }, patience, 20*time.Millisecond)
	closeQueue(t, q)

	q = openQueue(t, cfg)
	rejects(t, q.Feedback(), feedback.CodeErased, "erased", labelled("r1", bag.Violation))
	accepts(t, q.Feedback(), 1, 0, labelled("r2", bag.Violation))

	// An index that still knows what is gone does not keep a correction out.
	require.NoError(t, q.Feedback().stream.Purge(t.Context(), jetstream.WithPurgeSubject(subjectRecords+".>")))
	accepts(t, q.Feedback(), 1, 0, labelled("r2", bag.Compliant))
	require.Eventually(t, func() bool { return q.Feedback().Index().Stats(feedback.Split{}, 0).Records == 0 }, patience, 20*time.Millisecond)
	accepts(t, q.Feedback(), 1, 0, labelled("r2", bag.Compliant))
}

func kept(id, text string) KeptResponse {
	return KeptResponse{Item: rewardmodel.Item{ID: id, Response: &text, Prompt: "Why?"}, Model: "v1",
		Time: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), Violation: 0.7, Threshold: 0.6, Reward: 0.4, Instances: []float64{0.1, 0.7}}
}

func TestKeptResponses(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Streams.KeepScored = time.Hour
	q := openQueue(t, cfg)
	f := q.Feedback()
	require.True(t, f.Keeps())
	none, err := f.RecentKept(t.Context(), 5)
	require.NoError(t, err)
	require.Empty(t, none)
	messages := kept("m", "")
	messages.Item.Response = nil
	messages.Item.Messages = []rewardmodel.Message{{Role: "user", Content: "Hi"}, {Role: "assistant", Content: "Hello.\u2028"}}
	instances := kept("i", "")
	instances.Item.Response = nil
	instances.Item.Instances = []string{"One.", "Two."}
	for _, r := range []KeptResponse{messages, instances, kept("", "no id"), kept("blank", " ")} {
		require.NoError(t, f.Keep(t.Context(), []KeptResponse{r}))
	}
	for i := range 30 { // scored again and again
		require.NoError(t, f.Keep(t.Context(), []KeptResponse{kept(fmt.Sprint("k", i%3), fmt.Sprint("text ", i))}))
	}
	got, found, err := f.Kept(t.Context(), "m")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, messages, got)
	recent, err := f.RecentKept(t.Context(), 5)
	require.NoError(t, err)
	require.Len(t, recent, 5)
	require.Equal(t, kept("k2", "text 29"), recent[0])
	require.Equal(t, kept("k1", "text 28"), recent[1])
	require.Equal(t, "blank", recent[3].Item.ID)
	all, err := f.RecentKept(t.Context(), 100)
	require.NoError(t, err)
	require.Len(t, all, 6)
	require.Equal(t, "m", all[5].Item.ID)

	// Feedback by their ids.
	by := func(id, response string, b bag.Bag) feedback.Receipt {
		b.ID, b.Label = id, bag.Violation
		batch := feedback.Batch{Items: []feedback.Entry{{Item: feedback.Item{Bag: b, ResponseID: response}}}}
		receipt, err := f.Append(t.Context(), batch, "")
		require.NoError(t, err)
		return receipt
	}
	require.Equal(t, 1, by("m", "m", bag.Bag{}).Accepted)
	require.Equal(t, 1, by("i", "i", bag.Bag{}).Accepted)
	require.Equal(t, 1, by("other", "k2", bag.Bag{Rater: "ann"}).Accepted)
	require.Equal(t, 1, by("own", "unknown", bag.Bag{Response: "A text."}).Accepted)
	require.Equal(t, feedback.CodeUnknown, by("u", "unknown", bag.Bag{}).Rejected[0].Code)
	require.Equal(t, feedback.CodeUnlabelled, by("blank", "blank", bag.Bag{}).Rejected[0].Code)
	all2 := records(t, f)
	require.Equal(t, []bag.Message{{Role: "user", Content: "Hi"}, {Role: "assistant", Content: "Hello.\u2028"}}, all2["m/"].Record.Bag.Messages)
	require.Equal(t, []string{"One.", "Two."}, all2["i/"].Record.Bag.Instances)
	record := all2["other/ann"].Record
	require.Equal(t, "text 29", record.Bag.Response)
	require.Equal(t, "Why?", record.Bag.Prompt)
	require.Equal(t, "v1", record.Model)
	require.Equal(t, 0.7, *record.Violation)
	require.Nil(t, all2["own/"].Record.Violation)

	_, err = f.Erase(t.Context(), "k2")
	require.NoError(t, err)
	require.Equal(t, feedback.CodeErased, by("again", "k2", bag.Bag{}).Rejected[0].Code)
}

// How long texts are kept follows the setting, also when it gets shorter.
func TestKeepingForLess(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Streams.KeepScored = time.Hour
	q := openQueue(t, cfg)
	require.Equal(t, time.Hour, q.Feedback().kept.CachedInfo().Config.MaxAge)
	for _, keep := range []time.Duration{time.Minute, 2 * time.Hour} {
		cfg.Streams.KeepScored = keep
		other := replica(t, q, cfg)
		require.Equal(t, keep, config(t, other.js, StreamScored).MaxAge)
	}
	off := openQueue(t, testConfig(t))
	require.False(t, off.Feedback().Keeps())
	require.NoError(t, off.Feedback().Keep(t.Context(), []KeptResponse{kept("a", "b")}))
	_, err := off.js.Stream(t.Context(), StreamScored)
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
}
