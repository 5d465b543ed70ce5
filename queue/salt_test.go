package queue

import (
	"encoding/hex"
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
)

// Replicas that ask at the same time get one salt, and so does every later one.
func TestHoldoutSaltIsOne(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	q := openQueue(t, testConfig(t))
	const replicas = 8
	salts := make([][]byte, replicas)
	var wg sync.WaitGroup
	for i := range salts {
		r := openRegistry(t, q)
		wg.Go(func() {
			salt, err := r.HoldoutSalt(ctx)
			if err != nil {
				t.Error(err)
			}
			salts[i] = salt
		})
	}
	wg.Wait()
	again, err := openRegistry(t, q).HoldoutSalt(ctx)
	require.NoError(t, err)
	require.Len(t, again, saltSize)
	for _, salt := range salts {
		require.Equal(t, again, salt)
	}
	other, err := openRegistry(t, openQueue(t, testConfig(t))).HoldoutSalt(ctx)
	require.NoError(t, err)
	require.NotEqual(t, again, other, "each installation has its own")
}

func TestHoldoutSaltThatIsDamagedIsNotReplaced(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	r := openRegistry(t, openQueue(t, testConfig(t)))
	_, err := r.state.put(ctx, keySalt, []byte("not a salt"), 0)
	require.NoError(t, err)
	_, err = r.HoldoutSalt(ctx)
	require.ErrorContains(t, err, keySalt)
}

func TestDeletedHoldoutSaltIsNotReplaced(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	q := openQueue(t, testConfig(t))
	want, err := openRegistry(t, q).HoldoutSalt(ctx)
	require.NoError(t, err)
	bucket, err := q.js.KeyValue(ctx, BucketState)
	require.NoError(t, err)
	require.NoError(t, bucket.Delete(ctx, keySalt))
	_, err = openRegistry(t, q).HoldoutSalt(ctx)
	require.ErrorContains(t, err, "restore it")

	// As docs/feedback.md says.
	subject := stateSubject + keySalt
	_, err = q.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Header: nats.Header{HeaderRecord: {subject}}, Data: []byte(hex.EncodeToString(want))})
	require.NoError(t, err)
	again, err := openRegistry(t, q).HoldoutSalt(ctx)
	require.NoError(t, err)
	require.Equal(t, want, again)
}

// The group of a response is recorded with its first label, survives a restart
// of the index, and does not follow a prompt that comes with a later label.
func TestGroupIsRecorded(t *testing.T) {
	t.Parallel()
	q := openQueue(t, testConfig(t))
	f := q.Feedback()
	var items []bag.Bag
	for i := range 6 {
		items = append(items, bag.Bag{ID: fmt.Sprint("r", i), Rater: "anna", Label: bag.Violation,
			Prompt: fmt.Sprint("Prompt ", i/3), Response: fmt.Sprint("Text ", i)})
	}
	accepts(t, f, 6, 0, items...)
	moved := items[0]
	moved.Rater, moved.Prompt = "bert", "Prompt 1"
	accepts(t, f, 1, 0, moved)

	want := map[feedback.Hash]feedback.Hash{}
	for _, b := range items {
		m := feedback.Record{Bag: b}.Mark(0)
		want[m.ID] = m.Group
	}
	another := replica(t, q, testConfig(t)).Feedback()
	require.NoError(t, another.CaughtUp(within(t)))
	for _, index := range []*feedback.Index{f.Index(), another.Index()} {
		for salt := range 40 {
			split := feedback.Split{Share: 0.5, Salt: []byte{byte(salt)}}
			for b := range index.Bags(split) {
				require.Equal(t, split.HeldOut(b.ID, want[b.ID]), b.HeldOut)
			}
		}
	}
}

// Labels that an earlier release stored have no group. Their responses keep the
// side that they had, also after a correction and for further raters.
func TestUpgradeMovesNothing(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	q := openQueue(t, testConfig(t))
	f := q.Feedback()
	require.NoError(t, f.CaughtUp(ctx))
	const n = 20
	before := map[feedback.Hash]bool{} // by the hash of the id, as then
	var bags []bag.Bag
	for i := range n {
		b := bag.Bag{ID: fmt.Sprint("r", i), Rater: "anna", Label: bag.Violation, Prompt: "One for all?", Response: fmt.Sprint("Text ", i)}
		body, err := feedback.Record{Bag: b}.AppendJSON(nil)
		require.NoError(t, err)
		mark := feedback.Record{Bag: b}.Mark(0)
		mark.Group = feedback.Hash{}
		msg := &nats.Msg{Subject: recordSubject(mark.ID, mark.Rater), Data: body, Header: nats.Header{}}
		setMark(msg.Header, mark)
		msg.Header.Set(jetstream.MsgIDHeader, fmt.Sprint("TOKEN", i, ".0"))
		require.Empty(t, msg.Header.Get(HeaderGroup))
		_, err = f.put(ctx, msg)
		require.NoError(t, err)
		before[mark.ID] = feedback.Split{Share: 0.5}.HeldOut(mark.ID, feedback.Hash{})
		bags = append(bags, b)
	}
	require.NoError(t, f.CaughtUp(ctx))
	for i := range bags {
		bags[i].Label = bag.Compliant
	}
	accepts(t, f, n, 0, bags...)
	for i := range bags {
		bags[i].Rater = "bert"
	}
	accepts(t, f, n, 0, bags...)

	another := replica(t, q, testConfig(t)).Feedback()
	require.NoError(t, another.CaughtUp(ctx))
	salt, err := openRegistry(t, q).HoldoutSalt(ctx)
	require.NoError(t, err)
	for _, index := range []*feedback.Index{f.Index(), another.Index()} {
		now := map[feedback.Hash]bool{}
		for b := range index.Bags(feedback.Split{Share: 0.5, Salt: salt}) {
			now[b.ID] = b.HeldOut
		}
		require.Equal(t, before, now)
	}
}
