package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"assay/rewardmodel"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/retrain"
)

// ErrNotReady is what a [Scorer] returns while it has no model yet. It is
// answered 503 with Retry-After.
var ErrNotReady = errors.New("not ready")

// statusClientGone is nginx's status for a client that left before its answer.
// Only the log and the metrics see it.
const statusClientGone = 499

// retryWhenFull is advised when the feedback store is full: that takes somebody
// to erase something or to raise a limit.
const retryWhenFull = time.Minute

// failure is what a client is told about an error.
type failure struct {
	status     int
	code       string
	field      string
	message    string
	retryAfter time.Duration
	challenge  string // of WWW-Authenticate
}

// refusal is an error of the HTTP layer itself; the constructors below are its
// only makers, so that every status is decided in this file.
type refusal failure

func (e *refusal) Error() string { return e.message }

func errInvalid(field, format string, args ...any) error {
	return &refusal{status: http.StatusBadRequest, code: "invalid", field: field, message: fmt.Sprintf(format, args...)}
}

func errForbiddenOrigin(err error) error {
	return &refusal{status: http.StatusForbidden, code: "forbidden_origin", field: "Origin",
		message: fmt.Sprintf("%v: pages of another origin may not post here unless the service trusts it", err)}
}

func errNotFound(format string, args ...any) error {
	return &refusal{status: http.StatusNotFound, code: "not_found", message: fmt.Sprintf(format, args...)}
}

func errMethod(method, path, allow string) error {
	return &refusal{status: http.StatusMethodNotAllowed, code: "method_not_allowed",
		message: fmt.Sprintf("%.20q is not allowed on %.200s; use %s", method, path, allow)}
}

func errBodyTooLarge(limit int64) error {
	return errTooLarge("", "the body is larger than %d bytes; send fewer responses per request, or raise --max-body", limit)
}

func errTooLarge(field, format string, args ...any) error {
	return &refusal{status: http.StatusRequestEntityTooLarge, code: "too_large", field: field, message: fmt.Sprintf(format, args...)}
}

// errSlow refuses a body that does not arrive as fast as paced demands. It is
// late, and more time would not help.
func (s *Server) errSlow(read int64) error {
	return &refusal{status: http.StatusGatewayTimeout, code: "deadline_exceeded",
		message: fmt.Sprintf("the body arrives too slowly: %d bytes came, and it must make %d bytes per second; send fewer responses per request, compress it, or use a faster connection", read, s.cfg.MinRate)}
}

// errReplyTooLarge refuses to render a body of more than maxReply bytes.
func errReplyTooLarge() error {
	return errTooLarge("responses", `the results take more than %d bytes; send fewer responses per request, or "options":{"instances":false}`, maxReply)
}

func errMediaType(field, format string, args ...any) error {
	return &refusal{status: http.StatusUnsupportedMediaType, code: "unsupported_media_type", field: field, message: fmt.Sprintf(format, args...)}
}

// errUnauthorized asks for a token, in the words of RFC 6750, section 3.
func errUnauthorized(scope Scope, message string, presented bool) error {
	challenge := fmt.Sprintf(`Bearer realm="assay", scope="%s"`, scope)
	if presented {
		challenge += `, error="invalid_token"`
	}
	return &refusal{status: http.StatusUnauthorized, code: "unauthorized", field: "Authorization", message: message, challenge: challenge}
}

func errScope(scope Scope) error {
	return &refusal{status: http.StatusForbidden, code: "insufficient_scope", field: "Authorization",
		message:   fmt.Sprintf("the token does not have the scope %s; use one that has it or admin", scope),
		challenge: fmt.Sprintf(`Bearer realm="assay", scope="%s", error="insufficient_scope"`, scope)}
}

// errUnavailable asks a client to come back after Config.RetryAfter.
func (s *Server) errUnavailable(code, format string, args ...any) error {
	return &refusal{status: http.StatusServiceUnavailable, code: code, retryAfter: s.cfg.RetryAfter, message: fmt.Sprintf(format, args...)}
}

func (s *Server) errIdleStream(limit time.Duration) error {
	return s.errUnavailable("idle", "the stream ends after %v; open it again for the next request", limit)
}

func errNotEnabled() error {
	return &refusal{status: http.StatusNotImplemented, code: "not_enabled",
		message: "this service keeps no feedback and trains nothing: start without --nats off"}
}

func errPanic(value any) error { return fmt.Errorf("panic: %v", value) }

// explain maps an error to what the client is told. It is the only place that
// does, and a 429 is not among its results: trainers that never retry a 4xx
// would give up on it. What an error quotes of the client's data is cut short.
func (s *Server) explain(err error, requestID string) failure {
	f := s.failureOf(err, requestID)
	f.field, f.message = rewardmodel.Shorten(f.field), rewardmodel.Shorten(f.message)
	return f
}

func (s *Server) failureOf(err error, requestID string) failure {
	var refused *refusal
	var input *rewardmodel.InputError
	var overloaded *rewardmodel.OverloadedError
	switch {
	case errors.As(err, &refused):
		return failure(*refused)
	case errors.As(err, &input):
		return failure{status: input.Kind.Status(), code: input.Kind.String(), field: input.Field, message: input.Message}
	case errors.As(err, &overloaded):
		return failure{status: http.StatusServiceUnavailable, code: "overloaded", message: overloaded.Error(), retryAfter: overloaded.RetryAfter}
	case errors.Is(err, rewardmodel.ErrOverloaded):
		return failure{status: http.StatusServiceUnavailable, code: "overloaded", message: err.Error(), retryAfter: s.cfg.RetryAfter}
	case errors.Is(err, rewardmodel.ErrClosed):
		return failure{status: http.StatusServiceUnavailable, code: "shutting_down", message: err.Error(), retryAfter: s.cfg.RetryAfter}
	case errors.Is(err, ErrNotReady):
		return failure{status: http.StatusServiceUnavailable, code: "not_ready", message: err.Error(), retryAfter: s.cfg.RetryAfter}
	case errors.Is(err, feedback.ErrStoreFull):
		return failure{status: http.StatusServiceUnavailable, code: "store_full", message: err.Error(), retryAfter: max(s.cfg.RetryAfter, retryWhenFull)}
	case errors.Is(err, feedback.ErrUnavailable):
		return failure{status: http.StatusServiceUnavailable, code: "unavailable", message: err.Error(), retryAfter: s.cfg.RetryAfter}
	case errors.Is(err, context.DeadlineExceeded):
		return failure{status: http.StatusGatewayTimeout, code: "deadline_exceeded",
			message: fmt.Sprintf("the request was not done in time (%v); allow more with the header X-Request-Timeout (at most --request-timeout, %v), or send fewer responses a request", err, s.cfg.RequestTimeout)}
	case errors.Is(err, context.Canceled):
		return failure{status: statusClientGone, code: "client_gone", message: "the client closed the connection before its answer"}
	case errors.Is(err, retrain.ErrNoModel):
		return failure{status: http.StatusNotFound, code: "not_found", message: err.Error() + "; GET /v1/models lists them"}
	case errors.Is(err, retrain.ErrNoPrevious):
		return failure{status: http.StatusConflict, code: "no_previous", message: err.Error() + "; the first version serves"}
	case errors.Is(err, retrain.ErrNoFiles):
		return failure{status: http.StatusConflict, code: "no_files", message: err.Error() + "; choose a version that was promoted and is kept"}
	case errors.Is(err, retrain.ErrDamaged):
		return failure{status: http.StatusConflict, code: "damaged", message: err.Error() + "; choose another version"}
	case errors.Is(err, retrain.ErrExists):
		return failure{status: http.StatusConflict, code: "exists", message: err.Error()}
	case errors.Is(err, retrain.ErrChanged):
		return failure{status: http.StatusConflict, code: "changed", message: err.Error() + "; look at what holds now, and ask again if that is still right"}
	case errors.Is(err, rewardmodel.ErrModel):
		return failure{status: http.StatusInternalServerError, code: "model_failed",
			message: "the model failed on this request; the log of the service says why, under request id " + requestID}
	default:
		return failure{status: http.StatusInternalServerError, code: "internal",
			message: "the service failed on this request; its log says why, under request id " + requestID}
	}
}

// errorBody is the inside of every error answer.
type errorBody struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Field     string `json:"field,omitempty"`
	RequestID string `json:"request_id"`
}

// failedBody is the whole of an error answer.
type failedBody struct {
	Error errorBody `json:"error"`
}

func (f failure) body(requestID string) errorBody {
	return errorBody{Code: f.code, Message: f.message, Field: f.field, RequestID: requestID}
}

func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	x := exchangeOf(r)
	x.err = err
	f := s.explain(err, x.id)
	if f.challenge != "" {
		w.Header().Set("WWW-Authenticate", f.challenge)
	}
	if f.retryAfter > 0 {
		w.Header().Set("Retry-After", retrySeconds(f.retryAfter))
	}
	status, body := f.status, any(failedBody{f.body(x.id)})
	if x.dialect != nil {
		status, body = x.dialect(f)
	}
	// Strings and numbers alone always encode, and an error needs no memory.
	out, _ := encode(nil, body)
	s.write(w, r, status, out)
}

// retrySeconds rounds up: a client that comes back early only waits again.
func retrySeconds(d time.Duration) string {
	return strconv.Itoa(max(1, int(math.Ceil(d.Seconds()))))
}
