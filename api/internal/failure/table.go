package failure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"

	"assay/rewardmodel"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/retrain"
)

// statusClientClosed is nginx's status for a client that left before the
// response. Only the log and the metrics show it.
const statusClientClosed = 499

// retryWhenFull is the delay that a full feedback store advises: somebody has to
// erase data or raise a limit first.
const retryWhenFull = time.Minute

// Details are what the messages of some failures mention.
type Details struct {
	RequestID      string
	RetryAfter     time.Duration // advised when the service is not ready
	RequestTimeout time.Duration // the most that a request may take
}

// row maps one sentinel error.
type row struct {
	err     error
	status  int
	code    string
	advice  string        // appended to the text of the error
	message string        // replaces both: the text of the error is for the log only
	retry   time.Duration // minimum Retry-After, where the status is 503
}

const seeLog = "; the log of the service says why, under request id "

// rows are searched in order: the first row whose sentinel the error wraps
// decides.
var rows = []row{
	{err: rewardmodel.ErrOverloaded, status: http.StatusServiceUnavailable, code: "overloaded"},
	{err: rewardmodel.ErrClosed, status: http.StatusServiceUnavailable, code: "shutting_down"},
	{err: rewardmodel.ErrNotReady, status: http.StatusServiceUnavailable, code: "not_ready"},
	{err: feedback.ErrStoreFull, status: http.StatusServiceUnavailable, code: "store_full", retry: retryWhenFull},
	{err: feedback.ErrUnavailable, status: http.StatusServiceUnavailable, code: "unavailable"},
	{err: context.DeadlineExceeded, status: http.StatusGatewayTimeout, code: "deadline_exceeded"},
	{err: context.Canceled, status: statusClientClosed, code: "client_gone", message: "the client closed the connection before its answer"},
	{err: retrain.ErrNoModel, status: http.StatusNotFound, code: "not_found", advice: "; GET /v1/models lists them"},
	{err: retrain.ErrNoPrevious, status: http.StatusConflict, code: "no_previous", advice: "; the first version serves"},
	{err: retrain.ErrNoFiles, status: http.StatusConflict, code: "no_files", advice: "; choose a version that was promoted and is kept"},
	{err: retrain.ErrDamaged, status: http.StatusConflict, code: "damaged", advice: "; choose another version"},
	{err: retrain.ErrExists, status: http.StatusConflict, code: "exists"},
	{err: retrain.ErrChanged, status: http.StatusConflict, code: "changed", advice: "; look at what holds now, and ask again if that is still right"},
	{err: rewardmodel.ErrModel, status: http.StatusInternalServerError, code: "model_failed", message: "the model failed on this request" + seeLog},
}

// grpcCodes maps the statuses to gRPC codes. Overload is Unavailable, which
// clients may retry, and never ResourceExhausted, which reports a message that
// is too large.
var grpcCodes = map[int]codes.Code{
	http.StatusBadRequest:            codes.InvalidArgument,
	http.StatusUnauthorized:          codes.Unauthenticated,
	http.StatusForbidden:             codes.PermissionDenied,
	http.StatusNotFound:              codes.NotFound,
	http.StatusConflict:              codes.FailedPrecondition,
	http.StatusRequestEntityTooLarge: codes.ResourceExhausted,
	http.StatusUnsupportedMediaType:  codes.InvalidArgument,
	http.StatusUnprocessableEntity:   codes.InvalidArgument,
	statusClientClosed:               codes.Canceled,
	http.StatusInternalServerError:   codes.Internal,
	http.StatusNotImplemented:        codes.Unimplemented,
	http.StatusServiceUnavailable:    codes.Unavailable,
	http.StatusGatewayTimeout:        codes.DeadlineExceeded,
}

// GRPCCode returns the gRPC code of f.
func (f Failure) GRPCCode() codes.Code {
	if code, ok := grpcCodes[f.Status]; ok {
		return code
	}
	return codes.Unknown
}

// Of maps an error. What the message quotes of the client's data is shortened.
func Of(err error, d Details) Failure {
	f := of(err, d)
	f.Field, f.Message = rewardmodel.Shorten(f.Field), rewardmodel.Shorten(f.Message)
	return f
}

func of(err error, d Details) Failure {
	var known *Error
	var input *rewardmodel.InputError
	var overloaded *rewardmodel.OverloadedError
	switch {
	case errors.As(err, &known):
		return Failure(*known)
	case errors.As(err, &input):
		return Failure{Status: input.Kind.Status(), Code: input.Kind.String(), Field: input.Field, Message: input.Message}
	case errors.As(err, &overloaded):
		return Failure{Status: http.StatusServiceUnavailable, Code: "overloaded", Message: overloaded.Error(), RetryAfter: overloaded.RetryAfter}
	}
	for _, r := range rows {
		if errors.Is(err, r.err) {
			return r.failure(err, d)
		}
	}
	return Failure{Status: http.StatusInternalServerError, Code: "internal",
		Message: "the service failed on this request; its log says why, under request id " + d.RequestID}
}

func (r row) failure(err error, d Details) Failure {
	f := Failure{Status: r.status, Code: r.code, Message: cmp.Or(r.message, err.Error()+r.advice)}
	switch r.status {
	case http.StatusServiceUnavailable:
		f.RetryAfter = max(d.RetryAfter, r.retry)
	case http.StatusGatewayTimeout:
		f.Message = fmt.Sprintf("the request was not done in time (%v); allow more with the header X-Request-Timeout (at most --request-timeout, %v), or send fewer responses a request", err, d.RequestTimeout)
	case http.StatusInternalServerError:
		f.Message += d.RequestID
	}
	return f
}
