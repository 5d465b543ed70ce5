package queue

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"assay/rewardmodel"
	"assay/rewardmodel/feedback"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Error is an error of the service. Code is the HTTP status code.
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

// The codes of errors that are not about the input, as over HTTP.
const (
	nameOverloaded = "overloaded"
	nameClosed     = "shutting_down"
	nameDeadline   = "deadline_exceeded"
	nameCanceled   = "client_gone"
	nameModel      = "model_failed"
	nameInternal   = "internal"

	nameStoreFull   = "store_full"
	nameUnavailable = "unavailable"
)

// describe maps an error to the error of the service. It is the only place of this
// package that does. It hides internal errors, which are logged, and shortens what an
// error quotes of the client's data.
func describe(err error) *Error {
	e := *errorOf(err)
	e.Field, e.Message = rewardmodel.Shorten(e.Field), rewardmodel.Shorten(e.Message)
	return &e
}

func errorOf(err error) *Error {
	var own *Error
	var input *rewardmodel.InputError
	var overloaded *rewardmodel.OverloadedError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &input):
		return &Error{Code: input.Kind.Status(), Name: input.Kind.String(), Message: input.Message, Field: input.Field}
	case errors.As(err, &overloaded):
		return &Error{Code: http.StatusServiceUnavailable, Name: nameOverloaded, Message: overloaded.Error(),
			RetryAfter: max(overloaded.RetryAfter, retryWhenFull)}
	case errors.Is(err, rewardmodel.ErrOverloaded):
		return &Error{Code: http.StatusServiceUnavailable, Name: nameOverloaded, Message: err.Error(), RetryAfter: retryWhenFull}
	case errors.Is(err, rewardmodel.ErrClosed):
		return &Error{Code: http.StatusServiceUnavailable, Name: nameClosed, Message: err.Error(), RetryAfter: retryWhenFull}
	case errors.Is(err, feedback.ErrStoreFull):
		return &Error{Code: http.StatusServiceUnavailable, Name: nameStoreFull, Message: err.Error(), RetryAfter: retryWhenStoreFull}
	case errors.Is(err, feedback.ErrUnavailable):
		return &Error{Code: http.StatusServiceUnavailable, Name: nameUnavailable, Message: err.Error(), RetryAfter: retryWhenFull}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: http.StatusGatewayTimeout, Name: nameDeadline,
			Message: "the request timed out; raise the timeout, or send fewer responses per request"}
	case errors.Is(err, context.Canceled):
		return &Error{Code: 499, Name: nameCanceled, Message: "the request was canceled"}
	case errors.Is(err, rewardmodel.ErrModel):
		return &Error{Code: http.StatusInternalServerError, Name: nameModel,
			Message: "the model failed on this request; see the log of the service"}
	}
	return &Error{Code: http.StatusInternalServerError, Name: nameInternal,
		Message: "the service failed on this request; see its log"}
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
	switch e.Name {
	case nameOverloaded:
		return &rewardmodel.OverloadedError{RetryAfter: e.RetryAfter}
	case nameClosed:
		return rewardmodel.ErrClosed
	case nameDeadline:
		return context.DeadlineExceeded
	case nameCanceled:
		return context.Canceled
	case nameModel:
		return rewardmodel.ErrModel
	case nameStoreFull:
		return feedback.ErrStoreFull
	case nameUnavailable:
		return feedback.ErrUnavailable
	}
	return nil
}
