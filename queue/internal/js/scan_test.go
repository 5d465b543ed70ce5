package js_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/js"
	"assay/queue/internal/jstest"
)

// A read to the end yields every message that is not deleted, once and in order, while
// others are deleted before it, after it and at its end.
func TestScanWhileMessagesAreDeleted(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	_, jet := jstest.Connect(t, &server.Options{})
	for round := range 10 {
		stream, err := jet.CreateStream(ctx, jetstream.StreamConfig{Name: fmt.Sprint("S", round), Subjects: []string{fmt.Sprintf("s%d.>", round)}})
		require.NoError(t, err)
		const n = 2000
		for i := range n {
			_, err := jet.PublishAsync(fmt.Sprintf("s%d.x", round), fmt.Append(nil, i))
			require.NoError(t, err)
		}
		<-jet.PublishAsyncComplete()
		deleted := map[uint64]bool{n: true} // its last message too
		for _, i := range rand.Perm(n)[:n/4] {
			deleted[uint64(i+1)] = true
		}
		started, deleting := make(chan struct{}), make(chan error, 1)
		go func() {
			<-started
			for sequence := range deleted {
				if err := stream.DeleteMsg(ctx, sequence); err != nil {
					deleting <- err
					return
				}
			}
			deleting <- nil
		}()
		read := map[uint64]bool{}
		last := uint64(0)
		for msg, err := range js.Scan(ctx, stream, js.Range{Subject: fmt.Sprintf("s%d.>", round), First: 1, Last: n, HeadersOnly: round%2 == 0, MaxBytes: 1 << 10}) {
			require.NoError(t, err)
			require.Greater(t, msg.Sequence, last)
			last = msg.Sequence
			read[last] = true
			if len(read) == 1 {
				close(started)
			}
		}
		require.NoError(t, <-deleting)
		for sequence := uint64(1); sequence <= n; sequence++ {
			require.True(t, read[sequence] || deleted[sequence], "round %d: sequence %d", round, sequence)
		}
	}
}

// A read leaves no consumer, however it ends: a stream may have a limited number of them.
func TestScanRemovesItsConsumer(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	_, jet := jstest.Connect(t, &server.Options{})
	stream, err := jet.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	require.NoError(t, err)
	for range 3 {
		_, err := jet.Publish(ctx, "s.x", nil)
		require.NoError(t, err)
	}
	canceled, cancel := context.WithCancel(ctx)
	for name, read := range map[string]func(js.Message) bool{
		"to the end": func(js.Message) bool { return true },
		"stopped":    func(js.Message) bool { return false },
		"canceled":   func(js.Message) bool { cancel(); return true },
	} {
		for msg := range js.Scan(canceled, stream, js.Range{Subject: "s.>", First: 1, Last: 3, HeadersOnly: true}) {
			if !read(msg) {
				break
			}
		}
		info, err := stream.Info(ctx)
		require.NoError(t, err)
		require.Zero(t, info.State.Consumers, name)
		canceled, cancel = context.WithCancel(ctx)
	}
	cancel()
}
