package jstest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/js"
)

// Spoofs returns functions that write to a subject of assay on the server at url, in the ways that are open to a client
// without permission to publish to it.
func Spoofs(t *testing.T, url string, conn *nats.Conn) map[string]func(target string) {
	ctx, jet := Context(t), JetStream(t, conn)
	nc, err := nats.Connect(url)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	number := 0
	return map[string]func(string){
		"acknowledgement": func(target string) {
			before := lastSequence(t, conn, target)
			require.NoError(t, nc.PublishRequest("assay.v1.responses.x", target, []byte(`{"response":"x"}`)))
			require.Eventually(t, func() bool { return lastSequence(t, conn, target) > before }, Timeout, 5*time.Millisecond, target)
		},
		// A reward as a consumer would deliver it. It is published directly, since
		// nats-server 2.15 does not let a stream store what a consumer delivers.
		"delivery": func(target string) {
			number++
			_, err := jet.PublishMsg(ctx, &nats.Msg{Subject: target, Data: []byte(`{"id":"r"}`),
				Header: nats.Header{jetstream.MsgIDHeader: {fmt.Sprintf("run7 run7/r%d", number)}}})
			require.NoError(t, err)
		},
	}
}

// lastSequence returns the sequence of the last message of a subject, 0 without one.
func lastSequence(t *testing.T, nc *nats.Conn, subject string) uint64 {
	t.Helper()
	msg, err := LastOf(t, nc, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0
	}
	require.NoError(t, err)
	return msg.Sequence
}

// LastOf returns the last message of a subject.
func LastOf(t *testing.T, nc *nats.Conn, subject string) (*jetstream.RawStreamMsg, error) {
	t.Helper()
	ctx, jet := Context(t), JetStream(t, nc)
	name, err := jet.StreamNameBySubject(ctx, subject)
	require.NoError(t, err)
	stream, err := jet.Stream(ctx, name)
	require.NoError(t, err)
	return stream.GetLastMsgForSubject(ctx, subject)
}

// LastAuthentic reports whether assay wrote the last message of a subject.
func LastAuthentic(t *testing.T, nc *nats.Conn, subject string) bool {
	t.Helper()
	msg, err := LastOf(t, nc, subject)
	require.NoError(t, err)
	return js.Authentic(subject, msg.Header)
}
