// Package errorcode is the table of error codes that clients get, whatever the
// protocol: the machine-readable code, its HTTP status and its gRPC code. Errors
// of NATS micro services carry the HTTP status as their number.
//
// Overload is 503 with Retry-After, and Unavailable over gRPC, which clients may
// retry: trainers that do not retry a 4xx would end their run on it. The status 429,
// and ResourceExhausted over gRPC with the trailer retry-after, appear only where the
// operator limits a caller in the token file. ResourceExhausted without that trailer
// reports a message that is too large.
package errorcode

import (
	"net/http"

	"google.golang.org/grpc/codes"
)

// Code is a machine-readable error code, as in {"error":{"code":"too_large"}}.
type Code string

// The codes. Those without an error in sentinels come from the HTTP layer.
const (
	Invalid              Code = "invalid"                // malformed JSON, wrong type, unknown option or value
	Unauthorized         Code = "unauthorized"           // no token, or an invalid one
	InsufficientScope    Code = "insufficient_scope"     // the token does not have the scope
	ForbiddenOrigin      Code = "forbidden_origin"       // a web page of another origin, or the cookie of a session without its CSRF token
	NotFound             Code = "not_found"              // no such path, model or version, or training run
	MethodNotAllowed     Code = "method_not_allowed"     // the path has no such method
	NoPrevious           Code = "no_previous"            // there is no version to roll back to
	NoFiles              Code = "no_files"               // the files of the version are not kept
	Damaged              Code = "damaged"                // the stored version is corrupt
	Exists               Code = "exists"                 // the version exists
	Changed              Code = "changed"                // the state is not the one that the client expects
	TooLarge             Code = "too_large"              // over a limit of bytes, responses or instances
	UnsupportedMediaType Code = "unsupported_media_type" // wrong Content-Type or Content-Encoding
	Unprocessable        Code = "unprocessable"          // well formed, but there is nothing to score
	RateLimited          Code = "rate_limited"           // over a limit of the caller in the token file
	ClientGone           Code = "client_gone"            // the client canceled; only logs and metrics show it
	Internal             Code = "internal"               // any other error
	ModelFailed          Code = "model_failed"           // the model failed on the request
	NotEnabled           Code = "not_enabled"            // the service runs without this part
	Overloaded           Code = "overloaded"             // the queue or the memory is full
	ShuttingDown         Code = "shutting_down"          // the process drains
	NotReady             Code = "not_ready"              // no model yet
	StoreFull            Code = "store_full"             // the feedback store is full
	Unavailable          Code = "unavailable"            // the feedback store cannot be reached
	Idle                 Code = "idle"                   // a stream without requests, or a live session without text, was closed
	DeadlineExceeded     Code = "deadline_exceeded"      // not done within the timeout
)

// statusClientGone is nginx's status for a client that closed the connection.
const statusClientGone = 499

type statuses struct {
	http int
	grpc codes.Code
}

// table returns the statuses of a code.
func (c Code) table() statuses {
	switch c {
	case Invalid:
		return statuses{http.StatusBadRequest, codes.InvalidArgument}
	case Unauthorized:
		return statuses{http.StatusUnauthorized, codes.Unauthenticated}
	case InsufficientScope, ForbiddenOrigin:
		return statuses{http.StatusForbidden, codes.PermissionDenied}
	case NotFound:
		return statuses{http.StatusNotFound, codes.NotFound}
	case MethodNotAllowed:
		return statuses{http.StatusMethodNotAllowed, codes.Unimplemented}
	case NoPrevious, NoFiles, Damaged, Exists, Changed:
		return statuses{http.StatusConflict, codes.FailedPrecondition}
	case TooLarge:
		return statuses{http.StatusRequestEntityTooLarge, codes.ResourceExhausted}
	case UnsupportedMediaType:
		return statuses{http.StatusUnsupportedMediaType, codes.InvalidArgument}
	case Unprocessable:
		return statuses{http.StatusUnprocessableEntity, codes.InvalidArgument}
	case RateLimited:
		return statuses{http.StatusTooManyRequests, codes.ResourceExhausted}
	case ClientGone:
		return statuses{statusClientGone, codes.Canceled}
	case NotEnabled:
		return statuses{http.StatusNotImplemented, codes.Unimplemented}
	case Overloaded, ShuttingDown, NotReady, StoreFull, Unavailable, Idle:
		return statuses{http.StatusServiceUnavailable, codes.Unavailable}
	case DeadlineExceeded:
		return statuses{http.StatusGatewayTimeout, codes.DeadlineExceeded}
	default: // Internal, ModelFailed
		return statuses{http.StatusInternalServerError, codes.Internal}
	}
}

// HTTP returns the HTTP status of c, which is also its number over NATS.
func (c Code) HTTP() int { return c.table().http }

// GRPC returns the gRPC code of c.
func (c Code) GRPC() codes.Code { return c.table().grpc }
