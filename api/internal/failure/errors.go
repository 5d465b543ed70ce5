package failure

import (
	"errors"
	"fmt"
	"time"

	"assay/internal/errorcode"
	"assay/rewardmodel"
)

// MaxReply bounds a rendered response in bytes, compressed or not.
const MaxReply = 64 << 20

// ErrDraining is the reason for not being ready during a drain.
var ErrDraining = fmt.Errorf("%w: shutting down", rewardmodel.ErrNotReady)

// Error is an error of the API layer itself, which knows what the client is
// told. The constructors in this file make every Error.
type Error Failure

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Invalid reports a malformed request: 400.
func Invalid(field, format string, args ...any) error {
	return &Error{Code: errorcode.Invalid, Field: field, Message: fmt.Sprintf(format, args...)}
}

// Within prefixes the field of err, an Error, with the path of what contains it.
func Within(path string, err error) error {
	var e *Error
	if errors.As(err, &e) {
		e.Field = path + "." + e.Field
	}
	return err
}

// ForbiddenOrigin rejects a request of a web page of another origin: 403.
func ForbiddenOrigin(err error) error {
	return &Error{Code: errorcode.ForbiddenOrigin, Field: "Origin",
		Message: fmt.Sprintf("%v: pages of another origin may not post here unless the service trusts it", err)}
}

// ForbiddenHost rejects a request that names the service as a web page of another
// origin does after DNS rebinding: 403.
func ForbiddenHost(host string) error {
	return &Error{Code: errorcode.ForbiddenOrigin, Field: "Host",
		Message: fmt.Sprintf("%.100q is neither an IP address nor localhost; use one of them, or start the service with tokens or with --trusted-origin", host)}
}

// ForbiddenCSRF rejects a request that has the cookie of a session without the CSRF
// token of it, in a header: 403.
func ForbiddenCSRF(header string) error {
	return &Error{Code: errorcode.ForbiddenOrigin, Field: header,
		Message: "the CSRF token is missing or is not that of the session; send the one of GET /console/session, or a token in Authorization"}
}

// NotFound reports a missing resource: 404.
func NotFound(format string, args ...any) error {
	return &Error{Code: errorcode.NotFound, Message: fmt.Sprintf(format, args...)}
}

// MethodNotAllowed reports a path that has no such method: 405.
func MethodNotAllowed(method, path, allow string) error {
	return &Error{Code: errorcode.MethodNotAllowed,
		Message: fmt.Sprintf("%.20q is not allowed on %.200s; use %s", method, path, allow)}
}

// TooLarge reports a request over a limit: 413.
func TooLarge(field, format string, args ...any) error {
	return &Error{Code: errorcode.TooLarge, Field: field, Message: fmt.Sprintf(format, args...)}
}

// BodyTooLarge reports a request body over the limit in bytes: 413.
func BodyTooLarge(limit int64) error {
	return TooLarge("", "the body is larger than %d bytes; send fewer responses per request, or raise --max-body", limit)
}

// ReplyTooLarge reports results that render to more than MaxReply bytes: 413.
func ReplyTooLarge() error {
	return TooLarge("responses", `the results take more than %d bytes; send fewer responses per request, or "options":{"instances":false}`, MaxReply)
}

// TooSlow reports a body that arrives below the minimum rate, in bytes per
// second: 504. A longer timeout would not help.
func TooSlow(received, minRate int64) error {
	return &Error{Code: errorcode.DeadlineExceeded,
		Message: fmt.Sprintf("the body arrives too slowly: %d bytes arrived, and the minimum is %d bytes per second; send fewer responses per request, compress it, or use a faster connection", received, minRate)}
}

// UnsupportedMediaType reports a body in a format or encoding that the endpoint
// does not accept: 415.
func UnsupportedMediaType(field, format string, args ...any) error {
	return &Error{Code: errorcode.UnsupportedMediaType, Field: field, Message: fmt.Sprintf(format, args...)}
}

// Unauthorized asks for a token with a scope, as RFC 6750, section 3 defines:
// 401. presented reports whether the request had a token.
func Unauthorized(scope, message string, presented bool) error {
	challenge := fmt.Sprintf(`Bearer realm="assay", scope="%s"`, scope)
	if presented {
		challenge += `, error="invalid_token"`
	}
	return &Error{Code: errorcode.Unauthorized, Field: "Authorization", Message: message, Challenge: challenge}
}

// InsufficientScope rejects a token without the scope that the endpoint needs:
// 403.
func InsufficientScope(scope string) error {
	return &Error{Code: errorcode.InsufficientScope, Field: "Authorization",
		Message:   fmt.Sprintf("the token does not have the scope %s; use one that has it or admin", scope),
		Challenge: fmt.Sprintf(`Bearer realm="assay", scope="%s", error="insufficient_scope"`, scope)}
}

// RateLimited reports a caller over a limit of its own, and when to retry: 429.
func RateLimited(retryAfter time.Duration, format string, args ...any) error {
	return &Error{Code: errorcode.RateLimited, RetryAfter: retryAfter, Message: fmt.Sprintf(format, args...)}
}

// Unavailable asks a client to retry later, for one of the codes of 503.
func Unavailable(code errorcode.Code, retryAfter time.Duration, format string, args ...any) error {
	return &Error{Code: code, RetryAfter: retryAfter, Message: fmt.Sprintf(format, args...)}
}

// NotEnabled reports an endpoint whose backend the service runs without: 501.
func NotEnabled() error {
	return &Error{Code: errorcode.NotEnabled,
		Message: "this service keeps no feedback and trains nothing: start without --nats off"}
}

// Panic turns the value of a recovered panic into an error, which the client
// sees as an internal failure: 500.
func Panic(value any) error { return fmt.Errorf("panic: %v", value) }
