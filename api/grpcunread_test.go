package api_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"

	"assay/api"
	"assay/api/oip/inference"
	"assay/rewardmodel"
)

// Types and flags of HTTP/2 frames (RFC 9113, section 6).
const (
	frameData, frameHeaders, frameSettings = 0x0, 0x1, 0x4
	endStream, endHeaders                  = 0x1, 0x4
)

func frame(kind, flags byte, stream uint32, payload string) string {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	return string(binary.BigEndian.AppendUint32(append(head, flags), stream)) + payload
}

// field is a header that is not indexed (RFC 7541, section 6.2.2).
func field(name, value string) string {
	return "\x00" + string(rune(len(name))) + name + string(rune(len(value))) + value
}

// unread opens a connection that reads no byte of any reply, and calls methods on it
// with empty messages.
func unread(t *testing.T, addr string, methods ...string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	out := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(frameSettings, 0, 0, "\x00\x04\x00\x00\x00\x00") // INITIAL_WINDOW_SIZE 0
	for i, method := range methods {
		stream := uint32(2*i + 1)
		out += frame(frameHeaders, endHeaders, stream, field(":method", "POST")+field(":scheme", "http")+field(":path", method)+
			field(":authority", "evil.example")+field("content-type", "application/grpc")+field("te", "trailers"))
		out += frame(frameData, endStream, stream, "\x00\x00\x00\x00\x00")
	}
	_, err = io.WriteString(conn, out)
	require.NoError(t, err)
	return conn
}

// A client without a token that does not read small replies is disconnected, since it
// would keep its calls open forever.
func TestGRPCUnreadProbesAreDisconnected(t *testing.T) {
	s := startRPC(t, mustNotScore, config(func(c *api.Config) { c.HeaderTimeout = 300 * time.Millisecond }))
	live := "/inference.GRPCInferenceService/ServerLive"
	conn := unread(t, s.addr, live, live, "/grpc.health.v1.Health/Check", live)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(timeout)))
	_, err := io.Copy(io.Discard, conn)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
}

// A client that reads its replies stays connected.
func TestGRPCReadRepliesKeepTheConnection(t *testing.T) {
	s := startRPC(t, scorerOf(t, &model{}, 0), config(func(c *api.Config) { c.HeaderTimeout = 500 * time.Millisecond }))
	stream := openStream(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		exchangeOn(t, stream)
		_, err := callWith[inference.ServerLiveResponse](t, t.Context(), s.conn, "ServerLive", &inference.ServerLiveRequest{})
		require.NoError(t, err)
		s.log.request(t) // makes room for the next line
	}
}

// Reflection, which needs no token, ends an idle stream.
func TestGRPCReflectionEnds(t *testing.T) {
	s := startRPC(t, mustNotScore, config(func(c *api.Config) { c.HeaderTimeout = 300 * time.Millisecond }))
	stream, err := grpc_reflection_v1.NewServerReflectionClient(s.conn).ServerReflectionInfo(t.Context())
	require.NoError(t, err)
	_, err = stream.Recv()
	requireStatus(t, err, codes.Unavailable, "open it again")
}

// A proxy carries the calls of many clients on one connection: one of them that
// does not read its reply does not end the others.
func TestGRPCUnreadReplyEndsNoOtherCall(t *testing.T) {
	m := memory(t, 64<<20)
	entered, release := make(chan struct{}), make(chan struct{})
	text := strings.Repeat("x", 8<<20)
	s := startRPC(t, scorerFunc(func(_ context.Context, r rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
		if *r.Responses[0].Response == "other" {
			close(entered)
			<-release
			return rewardmodel.ScoreResponse{Results: make([]rewardmodel.Result, 1)}, nil
		}
		return rewardmodel.ScoreResponse{Results: []rewardmodel.Result{{Witness: &rewardmodel.Witness{Text: text}}}}, nil
	}), within(m), config(func(c *api.Config) { c.HeaderTimeout, c.MinRate = 500*time.Millisecond, 1<<30 }))
	done := make(chan error, 1)
	go func() {
		_, err := infer(t, s, texts("other"))
		done <- err
	}()
	await(t, entered, "the other call")
	stream := openStream(t, s)
	require.NoError(t, stream.SendMsg(texts("a")))
	require.Eventually(t, func() bool { return !free(m, 64<<20)() }, timeout, time.Millisecond)

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // four times the timeout of the reply
	defer cancel()
	select {
	case err := <-done:
		t.Fatalf("the other call ended: %v", err)
	case <-ctx.Done():
	}
	require.False(t, free(m, 64<<20)(), "the reply is still charged")
	close(release)
	require.NoError(t, await(t, done, "the other response"))
	require.Eventually(t, free(m, 64<<20), timeout, 10*time.Millisecond, "it is disconnected when it is the only call")
}

// An unread reply is held no longer than the request timeout.
func TestGRPCUnreadReplyEndsAtRequestTimeout(t *testing.T) {
	m := memory(t, 64<<20)
	text := strings.Repeat("x", 8<<20)
	s := startRPC(t, scorerFunc(func(context.Context, rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
		return rewardmodel.ScoreResponse{Results: []rewardmodel.Result{{Witness: &rewardmodel.Witness{Text: text}}}}, nil
	}), within(m), config(func(c *api.Config) {
		c.HeaderTimeout, c.RequestTimeout, c.MinRate = 200*time.Millisecond, time.Second, 1<<30
	}))
	stream := openStream(t, s)
	require.NoError(t, stream.SendMsg(texts("a")))
	require.Eventually(t, func() bool { return !free(m, 64<<20)() }, timeout, time.Millisecond)
	other := openStream(t, s) // a call that stays in flight
	require.NoError(t, other.SendMsg(texts("a")))
	require.Eventually(t, free(m, 64<<20), timeout, 10*time.Millisecond)
}
