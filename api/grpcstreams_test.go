package api_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"assay/api"
	"assay/api/oip/inference"
	"assay/rewardmodel"
)

const streamInfer = "/inference.GRPCInferenceService/ModelStreamInfer"

func openStream(t *testing.T, s *rpc) grpc.ClientStream {
	t.Helper()
	stream, err := s.conn.NewStream(t.Context(), &streamDesc, streamInfer)
	require.NoError(t, err)
	return stream
}

// exchangeOn sends a request on a stream and receives its response.
func exchangeOn(t *testing.T, stream grpc.ClientStream) {
	t.Helper()
	require.NoError(t, stream.SendMsg(texts("a")))
	require.NoError(t, stream.RecvMsg(&inference.ModelStreamInferResponse{}))
}

// idle reports whether no more request memory is in use than that of so many calls.
func idle(m *rewardmodel.Memory, limit, calls int64) func() bool {
	return func() bool {
		large, small := m.Open(), m.Open()
		defer large.Close()
		defer small.Close()
		return large.Grow(limit-limit/4) == nil && small.Grow(limit/4-calls*rewardmodel.RequestBytes) == nil
	}
}

// Streams that wait for their next request hold no memory but that of any call.
func TestIdleStreamsHoldNoMemory(t *testing.T) {
	m := memory(t, 4<<20)
	s := startRPC(t, scorerOf(t, &model{}, 0), within(m))
	streams := make([]grpc.ClientStream, 20)
	for i := range streams {
		streams[i] = openStream(t, s)
		exchangeOn(t, streams[i])
	}
	require.Eventually(t, idle(m, 4<<20, 20), timeout, 10*time.Millisecond)
	for _, stream := range streams {
		exchangeOn(t, stream)
	}
}

func TestIdleStreamEnds(t *testing.T) {
	s := startRPC(t, scorerOf(t, &model{}, 0), config(func(c *api.Config) { c.RequestTimeout = 300 * time.Millisecond }))
	stream := openStream(t, s)
	requireStatus(t, stream.RecvMsg(&inference.ModelStreamInferResponse{}), codes.Unavailable, "open it again for the next request")
}

func TestTooManyInferStreams(t *testing.T) {
	s := startRPC(t, scorerOf(t, &model{}, 0), config(func(c *api.Config) { c.MaxInferStreams = 1 }))
	first := openStream(t, s)
	exchangeOn(t, first)
	requireStatus(t, openStream(t, s).RecvMsg(&inference.ModelStreamInferResponse{}), codes.Unavailable, "close unused streams")
	_, err := infer(t, s, texts("a"))
	require.NoError(t, err)
	require.NoError(t, first.CloseSend())
	require.Eventually(t, func() bool {
		stream := openStream(t, s)
		return stream.SendMsg(texts("a")) == nil && stream.RecvMsg(&inference.ModelStreamInferResponse{}) == nil && stream.CloseSend() == nil
	}, timeout, 10*time.Millisecond)
}
