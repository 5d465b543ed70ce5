package grpcserver

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"assay/api/internal/exchange"
	"assay/api/internal/httpjson"
)

// callStatus returns the status with which a call ends. A retryable one says when
// to retry in its trailers: retry-after in seconds, as over HTTP, and
// grpc-retry-pushback-ms for the retries of gRPC itself.
func callStatus(err error, x *exchange.Exchange, stream grpc.ServerStream) *status.Status {
	if known, ok := status.FromError(err); ok {
		return known // nil, or gRPC's own about a message that it rejected
	}
	f := x.Failure(err)
	code := f.Code.GRPC()
	if code == codes.DeadlineExceeded && errors.Is(err, context.DeadlineExceeded) {
		f.Message = fmt.Sprintf("the call timed out (%v); set a later deadline (at most --request-timeout, %v), or send fewer texts per call", err, x.RequestTimeout)
	}
	if f.RetryAfter > 0 {
		stream.SetTrailer(metadata.Pairs("retry-after", httpjson.RetrySeconds(f.RetryAfter),
			"grpc-retry-pushback-ms", strconv.FormatInt(f.RetryAfter.Milliseconds(), 10)))
	}
	return status.New(code, f.Text())
}
