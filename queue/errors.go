package queue

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"assay/internal/errorcode"
	"assay/rewardmodel"
	"assay/rewardmodel/feedback"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Error is what the service answered instead of results. Code is the number
// that HTTP would give.
type Error struct {
	Code       int
	Name       string // machine-readable, such as "overloaded"
	Message    string // what was wrong, and the fix
	Field      string // path of the value at fault, or ""
	RetryAfter time.Duration

	is error // the sentinel that errors.Is finds, or nil
}

func (e *Error) Error() string {
	if e.Field != "" {
		return e.Field + ": " + e.Message
	}
	return e.Message
}

// Unwrap lets a client of the service test for the errors of a local scorer.
func (e *Error) Unwrap() error { return e.is }

// retryWhenFull is advised when the scorer does not say when to come back.
const retryWhenFull = time.Second

// retryWhenStoreFull is advised when feedback cannot be stored: that takes
// somebody to erase something or to raise a limit.
const retryWhenStoreFull = time.Minute

// The names of errors that are not about the input, as over HTTP.
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

// describe maps an error of the scorer to what a requester is told. It is the
// only place of this package that does. What went wrong inside is for our log
// and not repeated; what an error quotes of the client's data is cut short.
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
		return &Error{Code: errorcode.Of(err).HTTP(), Name: input.Kind.String(), Message: input.Message, Field: input.Field}
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
			Message: "the request was not done in time; wait longer, or send fewer responses a request"}
	case errors.Is(err, context.Canceled):
		return &Error{Code: 499, Name: nameCanceled, Message: "the request was cancelled"}
	case errors.Is(err, rewardmodel.ErrModel):
		return &Error{Code: http.StatusInternalServerError, Name: nameModel,
			Message: "the model failed on this request; the log of the service says why"}
	}
	return &Error{Code: http.StatusInternalServerError, Name: nameInternal,
		Message: "the service failed on this request; its log says why"}
}

// tooLarge says that a message of size bytes does not fit.
func tooLarge(what string, size, limit int64, fix string) *rewardmodel.InputError {
	return &rewardmodel.InputError{Kind: rewardmodel.KindTooLarge,
		Message: fmt.Sprintf("%s is %d bytes, more than the %d of a NATS message; %s", what, size, limit, fix)}
}

// errorBody is the JSON of an error answer, as over HTTP.
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

// headerValue makes text fit for a header: one line, valid, not long.
func headerValue(text string) string {
	const most = 1 << 10
	if len(text) > most {
		text = text[:most]
	}
	clean := func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}
	return strings.TrimSpace(strings.Map(clean, strings.ToValidUTF8(text, "?")))
}
