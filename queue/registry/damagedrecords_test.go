package registry_test

import (
	"maps"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/xid"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/js"
	"assay/queue/internal/jstest"
	"assay/queue/queuetest"
	"assay/queue/registry"
	"assay/rewardmodel/retrain"
)

// storeDamaged stores the last message of a subject again, with one bit flipped.
func storeDamaged(t *testing.T, nc *nats.Conn, subject string) {
	t.Helper()
	last, err := jstest.LastOf(t, nc, subject)
	require.NoError(t, err)
	header := maps.Clone(last.Header)
	header.Del(jetstream.ExpectedLastSubjSeqHeader)
	header.Set(jetstream.MsgIDHeader, xid.New().String()) // or it would be a duplicate
	data := append([]byte{}, last.Data...)
	data[len(data)/2] ^= 1
	_, err = jstest.JetStream(t, nc).PublishMsg(t.Context(), &nats.Msg{Subject: subject, Header: header, Data: data})
	require.NoError(t, err)
}

// A damaged value is an error, and not the value before it; other values can be read,
// and the damaged one replaced.
func TestDamagedValues(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	q := queuetest.Open(t, queuetest.Config(t))
	r := openRegistry(t, q)
	current, err := r.SetCurrent(ctx, retrain.Current{Version: "v1"})
	require.NoError(t, err)
	_, err = r.SetCurrent(ctx, retrain.Current{Version: "v2", Revision: current.Revision})
	require.NoError(t, err)
	for _, version := range []string{"v1", "v2"} {
		require.NoError(t, r.Register(ctx, retrain.Model{Version: version}))
	}
	storeDamaged(t, q.Conn(), registry.SubjectState+"current")
	storeDamaged(t, q.Conn(), registry.SubjectState+"model.v1")
	for _, reader := range []*registry.Registry{r, openRegistry(t, q)} {
		_, err = reader.Current(ctx)
		require.ErrorIs(t, err, js.ErrDamaged)
		_, err = reader.Model(ctx, "v1")
		require.ErrorIs(t, err, retrain.ErrDamaged)
		models, err := reader.Models(ctx)
		require.NoError(t, err)
		require.Len(t, models, 1)
	}
}

func TestDamagedEvents(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	q := queuetest.Open(t, queuetest.Config(t))
	r := openRegistry(t, q)
	require.NoError(t, r.Publish(ctx, retrain.Event{Kind: retrain.EventTrained, Reason: "a"}))
	storeDamaged(t, q.Conn(), registry.SubjectEvents+"."+string(retrain.EventTrained))
	require.NoError(t, r.Publish(ctx, retrain.Event{Kind: retrain.EventRejected, Reason: "b"}))
	var reasons []string
	damaged := 0
	for e, err := range r.Events(ctx, 0) {
		if err != nil {
			require.ErrorIs(t, err, js.ErrDamaged)
			damaged++
			continue
		}
		reasons = append(reasons, e.Reason)
		if e.Kind == retrain.EventRejected {
			break
		}
	}
	require.Equal(t, []string{"a", "b"}, reasons)
	require.Equal(t, 1, damaged)
}
