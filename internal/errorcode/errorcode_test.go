package errorcode

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"assay/rewardmodel"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/retrain"
)

func TestOf(t *testing.T) {
	input := func(kind rewardmodel.ErrorKind) error { return &rewardmodel.InputError{Kind: kind} }
	for _, test := range []struct {
		err  error
		code Code
		http int
		grpc codes.Code
	}{
		{input(rewardmodel.KindInvalid), "invalid", 400, codes.InvalidArgument},
		{input(rewardmodel.KindNotFound), "not_found", 404, codes.NotFound},
		{input(rewardmodel.KindTooLarge), "too_large", 413, codes.ResourceExhausted},
		{input(rewardmodel.KindUnprocessable), "unprocessable", 422, codes.InvalidArgument},
		{&rewardmodel.OverloadedError{RetryAfter: time.Second}, "overloaded", 503, codes.Unavailable},
		{rewardmodel.ErrClosed, "shutting_down", 503, codes.Unavailable},
		{feedback.ErrStoreFull, "store_full", 503, codes.Unavailable},
		{retrain.ErrChanged, "changed", 409, codes.FailedPrecondition},
		{rewardmodel.ErrModel, "model_failed", 500, codes.Internal},
		{errors.New("any other"), "internal", 500, codes.Internal},
	} {
		code := Of(fmt.Errorf("wrapped: %w", test.err))
		require.Equal(t, test.code, code, "%v", test.err)
		require.Equal(t, test.http, code.HTTP(), "%v", test.err)
		require.Equal(t, test.grpc, code.GRPC(), "%v", test.err)
	}
}

// A client gets the sentinel error of the service.
func TestErrIsTheInverseOfOf(t *testing.T) {
	for _, s := range sentinels() {
		if s.code == NotFound {
			continue // a model, a version or a path
		}
		require.Equal(t, s.err, Of(s.err).Err())
	}
	require.NoError(t, Invalid.Err())
	require.NoError(t, Code("").Err())
}

// No code makes clients give up on overload.
func TestOverloadIsRetryable(t *testing.T) {
	for _, s := range sentinels() {
		require.NotEqual(t, 429, s.code.HTTP())
	}
}
