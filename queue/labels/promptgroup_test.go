package labels_test

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/jstest"
	"assay/queue/labels"
	"assay/queue/labels/labelstest"
	"assay/queue/queuetest"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
)

// The group of a response is recorded with its first label, survives a restart
// of the index, and does not follow a prompt that comes with a later label.
func TestGroupIsRecorded(t *testing.T) {
	t.Parallel()
	q := queuetest.Open(t, queuetest.Config(t))
	f := q.Labels()
	var items []bag.Bag
	for i := range 6 {
		items = append(items, bag.Bag{ID: fmt.Sprint("r", i), Rater: "anna", Label: bag.Violation,
			Prompt: fmt.Sprint("Prompt ", i/3), Response: fmt.Sprint("Text ", i)})
	}
	labelstest.Accepts(t, f, 6, 0, items...)
	moved := items[0]
	moved.Rater, moved.Prompt = "bert", "Prompt 1"
	labelstest.Accepts(t, f, 1, 0, moved)

	want := map[feedback.Hash]feedback.Hash{}
	for _, b := range items {
		m := feedback.Record{Bag: b}.Mark(0)
		want[m.ID] = m.Group
	}
	another := queuetest.Replica(t, q, queuetest.Config(t)).Labels()
	require.NoError(t, another.CaughtUp(jstest.Context(t)))
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
// split that they had, even after a correction and for other raters.
func TestUpgradeKeepsTheSplit(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	q := queuetest.Open(t, queuetest.Config(t))
	f := q.Labels()
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
		msg := &nats.Msg{Subject: labels.RecordSubject(mark.ID, mark.Rater), Data: body, Header: nats.Header{}}
		labels.SetMark(msg.Header, mark)
		msg.Header.Set(jetstream.MsgIDHeader, fmt.Sprint("TOKEN", i, ".0"))
		require.Empty(t, msg.Header.Get(labels.HeaderGroup))
		_, err = jstest.JetStream(t, q.Conn()).PublishMsg(ctx, msg)
		require.NoError(t, err)
		before[mark.ID] = feedback.Split{Share: 0.5}.HeldOut(mark.ID, feedback.Hash{})
		bags = append(bags, b)
	}
	require.NoError(t, f.CaughtUp(ctx))
	for i := range bags {
		bags[i].Label = bag.Compliant
	}
	labelstest.Accepts(t, f, n, 0, bags...)
	for i := range bags {
		bags[i].Rater = "bert"
	}
	labelstest.Accepts(t, f, n, 0, bags...)

	another := queuetest.Replica(t, q, queuetest.Config(t)).Labels()
	require.NoError(t, another.CaughtUp(ctx))
	r, err := q.OpenRegistry(ctx)
	require.NoError(t, err)
	salt, err := r.HoldoutSalt(ctx)
	require.NoError(t, err)
	for _, index := range []*feedback.Index{f.Index(), another.Index()} {
		now := map[feedback.Hash]bool{}
		for b := range index.Bags(feedback.Split{Share: 0.5, Salt: salt}) {
			now[b.ID] = b.HeldOut
		}
		require.Equal(t, before, now)
	}
}
