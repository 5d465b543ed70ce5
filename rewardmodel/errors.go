package rewardmodel

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrOverloaded reports that the queue of instances is full. Score returns an
// *OverloadedError, which wraps it and says when to retry.
var ErrOverloaded = errors.New("the scoring queue is full")

// ErrClosed reports that the scorer no longer admits requests. Requests that were
// admitted before Close are still scored.
var ErrClosed = errors.New("the scorer is closed")

// ErrModel reports that the model failed on a batch with an instance of the
// request: an error, a wrong number of margins, or a non-finite margin. The
// scorer itself continues.
var ErrModel = errors.New("the model failed")

// ErrNotReady reports that a service, or one of its dependencies, is starting or
// stopping: clients may retry.
var ErrNotReady = errors.New("not ready")

// OverloadedError is returned when the queue is full, or when there is not enough
// memory for the model that a request pins.
type OverloadedError struct {
	// RetryAfter is when the model has capacity for the request at its measured
	// throughput, after those that were refused before it: between 1 s and 10 minutes.
	// A request with the same texts that comes then, or up to 2 s later, has a place
	// in the queue before requests that were not refused. Where something other than
	// the queue is full, it is a guess.
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

// The kinds of an InputError.
const (
	KindInvalid       ErrorKind = iota // malformed JSON, wrong type, unknown option or value
	KindNotFound                       // the request pins a model that is not loaded
	KindTooLarge                       // more responses, instances or bytes than a request may hold
	KindUnprocessable                  // well formed, but there is nothing to score
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

// InputError describes what is wrong with a request and how to fix it.
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

// Within prefixes the field with the path of its parent, in place.
func (e *InputError) Within(parent string) *InputError {
	if e.Field != "" {
		parent += "." + e.Field
	}
	e.Field = parent
	return e
}

// element is the path of element i of a list.
func element(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

// TooManyInstances rejects a request whose responses together have more than limit
// instances.
func TooManyInstances(field string, limit int) *InputError {
	return &InputError{Kind: KindTooLarge, Field: field,
		Message: fmt.Sprintf("brings the instances of the request to more than %d; split the request", limit)}
}

// Invalidf returns an *InputError of KindInvalid. The message names the fix.
func Invalidf(field, format string, args ...any) *InputError {
	return &InputError{Kind: KindInvalid, Field: field, Message: fmt.Sprintf(format, args...)}
}

// Shorten limits a text that is logged or sent to a client to 2,048 bytes: an error
// may quote the client's input, which can be megabytes.
func Shorten(text string) string {
	const limit = 2048
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "... (shortened)"
}

// Quote quotes a client's string for a message, limited to 40 bytes: it can be
// megabytes.
func Quote(text string) string {
	const limit = 40
	if len(text) <= limit {
		return fmt.Sprintf("%q", text)
	}
	return fmt.Sprintf("%q...", strings.ToValidUTF8(text[:limit], ""))
}
