package queue

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"assay/internal/errorcode"
	"assay/rewardmodel"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Error is an error of the service. Code is the HTTP status code, Name the code of
// package errorcode.
type Error struct {
	Code       int
	Name       string // machine-readable, such as "overloaded"
	Message    string // the error, and the fix
	Field      string // path of the invalid value, or ""
	RetryAfter time.Duration

	is error // the sentinel that errors.Is finds, or nil
}

func (e *Error) Error() string {
	if e.Field != "" {
		return e.Field + ": " + e.Message
	}
	return e.Message
}

// Unwrap returns the error that a local scorer would return, or nil.
func (e *Error) Unwrap() error { return e.is }

// retryWhenFull is the Retry-After if the scorer does not suggest one.
const retryWhenFull = time.Second

// retryWhenStoreFull is the Retry-After if feedback cannot be stored, until an operator
// erases something or raises a limit.
const retryWhenStoreFull = time.Minute

// describe maps an error to the error of the service by the table of package errorcode. It
// is the only place of this package that does. It hides internal errors, which are logged, and shortens what an
// error quotes of the client's data.
func describe(err error) *Error {
	e := *errorOf(err)
	e.Field, e.Message = rewardmodel.Shorten(e.Field), rewardmodel.Shorten(e.Message)
	return &e
}

func errorOf(err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	code := errorcode.Of(err)
	e := &Error{Code: code.HTTP(), Name: string(code), Message: err.Error()}
	var input *rewardmodel.InputError
	var overloaded *rewardmodel.OverloadedError
	switch {
	case errors.As(err, &input):
		e.Message, e.Field = input.Message, input.Field
	case errors.As(err, &overloaded):
		e.RetryAfter = max(overloaded.RetryAfter, retryWhenFull)
	case code == errorcode.StoreFull:
		e.RetryAfter = retryWhenStoreFull
	case e.Code == http.StatusServiceUnavailable:
		e.RetryAfter = retryWhenFull
	case code == errorcode.DeadlineExceeded:
		e.Message = "the request timed out; raise the timeout, or send fewer responses per request"
	case code == errorcode.ClientGone:
		e.Message = "the request was canceled"
	case code == errorcode.ModelFailed:
		e.Message = "the model failed on this request; see the log of the service"
	default:
		e.Message = "the service failed on this request; see its log"
	}
	return e
}

// tooLarge returns the error of a message that is too large.
func tooLarge(what string, size, limit int64, fix string) *rewardmodel.InputError {
	return &rewardmodel.InputError{Kind: rewardmodel.KindTooLarge,
		Message: fmt.Sprintf("%s is %d bytes, above the limit of %d of a NATS message; %s", what, size, limit, fix)}
}

// errorBody is the JSON of an error, as over HTTP.
type errorBody struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Field   string `json:"field,omitempty"`
	} `json:"error"`
}

func (e *Error) body() ([]byte, error) {
	var b errorBody
	b.Error.Code, b.Error.Message, b.Error.Field = e.Name, e.Message, e.Field
	return json.Marshal(b, jsontext.AllowInvalidUTF8(true))
}

// parseError is the inverse of body, for the client.
func parseError(code int, description string, body []byte, retryAfter time.Duration) *Error {
	e := &Error{Code: code, Message: description, RetryAfter: retryAfter}
	var b errorBody
	if json.Unmarshal(body, &b) == nil && b.Error.Message != "" {
		e.Name, e.Message, e.Field = b.Error.Code, b.Error.Message, b.Error.Field
	}
	e.is = sentinel(e)
	return e
}

func sentinel(e *Error) error {
	kinds := []rewardmodel.ErrorKind{rewardmodel.KindInvalid, rewardmodel.KindNotFound, rewardmodel.KindTooLarge, rewardmodel.KindUnprocessable}
	for _, kind := range kinds {
		if e.Name == kind.String() {
			return &rewardmodel.InputError{Kind: kind, Field: e.Field, Message: e.Message}
		}
	}
	code := errorcode.Code(e.Name)
	if code == errorcode.Overloaded {
		return &rewardmodel.OverloadedError{RetryAfter: e.RetryAfter}
	}
	return code.Err()
}
