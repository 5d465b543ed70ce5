package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// callCodes are the gRPC codes of the statuses that explain decides on.
// Overload is Unavailable, which clients may send again, and never
// ResourceExhausted, which is for a message that is too large.
var callCodes = map[int]codes.Code{
	http.StatusBadRequest:            codes.InvalidArgument,
	http.StatusUnauthorized:          codes.Unauthenticated,
	http.StatusForbidden:             codes.PermissionDenied,
	http.StatusNotFound:              codes.NotFound,
	http.StatusConflict:              codes.FailedPrecondition,
	http.StatusRequestEntityTooLarge: codes.ResourceExhausted,
	http.StatusUnsupportedMediaType:  codes.InvalidArgument,
	http.StatusUnprocessableEntity:   codes.InvalidArgument,
	statusClientGone:                 codes.Canceled,
	http.StatusInternalServerError:   codes.Internal,
	http.StatusNotImplemented:        codes.Unimplemented,
	http.StatusServiceUnavailable:    codes.Unavailable,
	http.StatusGatewayTimeout:        codes.DeadlineExceeded,
}

// callStatus is how a call ends. One that is worth sending again says when in
// its trailers: retry-after in seconds, as over HTTP, and
// grpc-retry-pushback-ms for the retries of gRPC itself.
func (s *Server) callStatus(err error, requestID string, stream grpc.ServerStream) *status.Status {
	if known, ok := status.FromError(err); ok {
		return known // none, or what gRPC says of a message that it did not take
	}
	f := s.explain(err, requestID)
	code, ok := callCodes[f.status]
	if !ok {
		code = codes.Unknown
	}
	if code == codes.DeadlineExceeded && errors.Is(err, context.DeadlineExceeded) {
		f.message = fmt.Sprintf("the call was not done in time (%v); give it a later deadline (at most --request-timeout, %v), or send fewer texts a call", err, s.cfg.RequestTimeout)
	}
	if f.retryAfter > 0 {
		stream.SetTrailer(metadata.Pairs("retry-after", retrySeconds(f.retryAfter),
			"grpc-retry-pushback-ms", strconv.FormatInt(f.retryAfter.Milliseconds(), 10)))
	}
	return status.New(code, f.text())
}
