package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"assay/api/oip/inference"
	"assay/rewardmodel"
)

// The scorer gets the priority of the request; requests of foreign protocols are
// interactive.
func TestPriority(t *testing.T) {
	m := scorerOf(t, &model{}, 0)
	got := make(chan rewardmodel.Priority, 1)
	scorer := scorerFunc(func(ctx context.Context, r rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
		got <- r.Priority
		return m.Score(ctx, r)
	})
	s := start(t, scorer)
	for _, test := range []struct {
		path, body, header string
		want               rewardmodel.Priority
	}{
		{"/v1/score", one("fine"), "", ""},
		{"/v1/score", one("fine"), "bulk", rewardmodel.PriorityBulk},
		{"/get_reward", `{"query":["fine","well"]}`, "", rewardmodel.PriorityInteractive},
		{"/get_reward", `{"query":["fine"]}`, "bulk", rewardmodel.PriorityBulk},
	} {
		answer := s.do(t, http.MethodPost, test.path, strings.NewReader(test.body), "Content-Type", "application/json", "X-Priority", test.header)
		require.Equal(t, http.StatusOK, answer.StatusCode, "%s", answer.body)
		require.Equal(t, test.want, await(t, got, "the request"), "%+v", test)
	}
	r := startRPC(t, scorer)
	_, err := infer(t, r, texts("fine"))
	require.NoError(t, err)
	require.Equal(t, rewardmodel.PriorityInteractive, await(t, got, "the call"))

	stream, err := r.conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/inference.GRPCInferenceService/ModelStreamInfer")
	require.NoError(t, err)
	require.NoError(t, stream.SendMsg(texts("fine")))
	require.Equal(t, rewardmodel.PriorityBulk, await(t, got, "the stream"))
	require.NoError(t, stream.CloseSend())

	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-priority", "soon")
	err = r.conn.Invoke(ctx, "/inference.GRPCInferenceService/ModelInfer", texts("fine"), &inference.ModelInferResponse{})
	requireStatus(t, err, codes.InvalidArgument, "interactive, bulk")
}
