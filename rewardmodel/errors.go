package rewardmodel

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// ErrOverloaded says that the queue of instances is full. The error that Score
// returns is an *OverloadedError, which wraps it and says when to come back.
var ErrOverloaded = errors.New("the scoring queue is full")

// ErrClosed says that the scorer no longer admits requests. Requests that were
// admitted before Close still get their answer.
var ErrClosed = errors.New("the scorer is closed")

// ErrModel says that the model failed on a batch that held an instance of the
// request: an error, a wrong number of margins, or a margin that is not a
// finite number. The scorer itself goes on.
var ErrModel = errors.New("the model failed")

// ErrNotLoaded says that there is no model to score with yet.
var ErrNotLoaded = errors.New("no model is loaded yet")

// ErrUnknownVersion says that nobody knows a model version: a Loader returns it.
var ErrUnknownVersion = errors.New("unknown model version")

// ErrLoad says that a model version that exists could not be loaded.
var ErrLoad = errors.New("the model version cannot be loaded")

// OverloadedError is returned when a request finds the queue full, or no room
// for the model that it pins.
type OverloadedError struct {
	// RetryAfter is how long it will take until there is room for the request, or
	// so little ahead of it that it is done in time, at the measured throughput of
	// the model: between 1 s and 1 minute.
	RetryAfter time.Duration
	// Reason replaces the text of ErrOverloaded where something else is full.
	Reason string
}

func (e *OverloadedError) Error() string {
	if e.Reason != "" {
		return fmt.Sprintf("%s; retry after %v", e.Reason, e.RetryAfter)
	}
	return fmt.Sprintf("%v; retry after %v, or raise the queue's token limit", ErrOverloaded, e.RetryAfter)
}

// Unwrap makes errors.Is(err, ErrOverloaded) hold.
func (e *OverloadedError) Unwrap() error { return ErrOverloaded }

// ErrorKind classifies what is wrong with a request.
type ErrorKind int

// The kinds of an InputError, with the HTTP status of each.
const (
	KindInvalid       ErrorKind = iota // 400: broken JSON, wrong type, unknown option or value
	KindNotFound                       // 404: the request pins a model that is not loaded
	KindTooLarge                       // 413: more responses, instances or bytes than a request may hold
	KindUnprocessable                  // 422: well formed, but there is nothing to score
)

// String returns the machine-readable code of k, such as "too_large".
func (k ErrorKind) String() string {
	switch k {
	case KindNotFound:
		return "not_found"
	case KindTooLarge:
		return "too_large"
	case KindUnprocessable:
		return "unprocessable"
	default:
		return "invalid"
	}
}

// Status returns the HTTP status of k, which answers over NATS carry as well.
func (k ErrorKind) Status() int {
	switch k {
	case KindNotFound:
		return http.StatusNotFound
	case KindTooLarge:
		return http.StatusRequestEntityTooLarge
	case KindUnprocessable:
		return http.StatusUnprocessableEntity
	default:
		return http.StatusBadRequest
	}
}

// InputError says what is wrong with a request and how to mend it.
type InputError struct {
	Kind    ErrorKind
	Field   string // path such as "responses[3].instances[0]"; "" for the whole body
	Message string // what was wrong, and the fix
}

func (e *InputError) Error() string {
	if e.Field == "" {
		return e.Message
	}
	return e.Field + ": " + e.Message
}

// within puts what holds the field before it.
func (e *InputError) within(parent string) *InputError {
	if e.Field != "" {
		parent += "." + e.Field
	}
	e.Field = parent
	return e
}

// element is the path of element i of a list.
func element(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

// tooManyInstances refuses a request whose responses have more instances than
// all of them together may have.
func tooManyInstances(field string, limit int) *InputError {
	return &InputError{Kind: KindTooLarge, Field: field,
		Message: fmt.Sprintf("brings the instances of the request to more than %d; split the request", limit)}
}

func invalid(field, format string, args ...any) *InputError {
	return &InputError{Kind: KindInvalid, Field: field, Message: fmt.Sprintf(format, args...)}
}

// Shorten cuts what is logged or sent to a client to 2,048 bytes: an error may
// quote what the client sent, and that may be megabytes.
func Shorten(text string) string {
	const most = 2048
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "... (shortened)"
}
