package assay

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Kinds of refusals, for errors.Is.
var (
	ErrInvalid      = errors.New("the request is wrong")                         // 400, 413, 415, 422
	ErrUnauthorized = errors.New("the token is missing, unknown or of no scope") // 401, 403
	ErrNotFound     = errors.New("there is no such thing")                       // 404, 405
	ErrConflict     = errors.New("the state of the models does not allow it")    // 409
	ErrNotEnabled   = errors.New("the service runs without what this needs")     // 501
	ErrUnavailable  = errors.New("the service cannot answer now")                // 429, 502, 503, 504
)

// APIError is a refusal: the service, or something before it, answered another
// status than 2xx.
type APIError struct {
	Status     int           // of HTTP
	Code       string        // for programs, such as "overloaded"; "" when it is not the service that answered
	Message    string        // for people
	Field      string        // path of the offending value in the request; "" when it is none
	RequestID  string        // as in the service's log
	RetryAfter time.Duration // 0 when it does not say
	Item       int           // the offending one of the caller's items, from 0; -1 when it is none
}

func (e *APIError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the service says %d", e.Status)
	if e.Code != "" {
		fmt.Fprintf(&b, " %s", e.Code)
	}
	if e.Field != "" {
		fmt.Fprintf(&b, ": %s", e.Field)
	}
	fmt.Fprintf(&b, ": %s", e.Message)
	if e.Item >= 0 {
		fmt.Fprintf(&b, " (item %d)", e.Item)
	}
	if e.RequestID != "" {
		fmt.Fprintf(&b, " (request %s)", e.RequestID)
	}
	return b.String()
}

// Is tells to which of ErrInvalid, ErrUnauthorized, ErrNotFound, ErrConflict,
// ErrNotEnabled and ErrUnavailable the status belongs.
func (e *APIError) Is(target error) bool {
	switch e.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return target == ErrInvalid
	case http.StatusUnauthorized, http.StatusForbidden:
		return target == ErrUnauthorized
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return target == ErrNotFound
	case http.StatusConflict:
		return target == ErrConflict
	case http.StatusNotImplemented:
		return target == ErrNotEnabled
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return target == ErrUnavailable
	}
	return false
}

// undone tells that the service did nothing of the request. A store that could
// not be reached ("unavailable") may have done it nevertheless, and a status
// without a code comes from something between.
func (e *APIError) undone() bool {
	switch e.Code {
	case "overloaded", "not_ready", "shutting_down", "store_full":
		return e.Status == http.StatusServiceUnavailable
	}
	return false
}

// TransportError means that there was no answer, or only a part of one.
type TransportError struct {
	Sent bool // a connection was there: the service may have seen the request
	Err  error
}

func (e *TransportError) Error() string {
	if e.Sent {
		return "no answer: " + e.Err.Error()
	}
	return "no connection: " + e.Err.Error()
}

func (e *TransportError) Unwrap() error { return e.Err }

// AnswerError means that the answer is none that an assay service gives: no
// JSON, or a value is missing or impossible.
type AnswerError struct {
	Err error
}

func (e *AnswerError) Error() string {
	return "the answer is not one of an assay service: " + e.Err.Error()
}

func (e *AnswerError) Unwrap() error { return e.Err }

func badAnswer(format string, args ...any) error {
	return &AnswerError{fmt.Errorf(format, args...)}
}

// InputError means that a value cannot be sent; nothing was.
type InputError struct {
	Item    int    // which of the caller's items, from 0; -1 when it is none
	Field   string // of the item, or the name of the argument
	Message string
}

func (e *InputError) Error() string {
	if e.Item < 0 {
		return fmt.Sprintf("%s: %s", e.Field, e.Message)
	}
	return fmt.Sprintf("item %d: %s: %s", e.Item, e.Field, e.Message)
}

// Is makes it an ErrInvalid.
func (e *InputError) Is(target error) bool { return target == ErrInvalid }

// wrongItem is how the service names the offending item of a request.
var wrongItem = regexp.MustCompile(`^(?:responses|items)\[(\d{1,9})\]`)

// refusal reads an answer that is not 2xx. first is the place of the request's
// first item among those of the caller, or -1.
func refusal(answer *http.Response, body []byte, first int, now time.Time) *APIError {
	e := &APIError{Status: answer.StatusCode, Item: -1, RetryAfter: retryAfter(answer.Header.Get("Retry-After"), now)}
	var said struct {
		Error struct {
			Code      string `json:"code"`
			Message   string `json:"message"`
			Field     string `json:"field"`
			RequestID string `json:"request_id"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &said) == nil && said.Error.Message != "" {
		e.Code, e.Message, e.Field, e.RequestID = said.Error.Code, said.Error.Message, said.Error.Field, said.Error.RequestID
	} else {
		e.Message = strings.TrimSpace(fmt.Sprintf("%s %.200s", http.StatusText(answer.StatusCode), body))
	}
	if to := answer.Header.Get("Location"); answer.StatusCode/100 == 3 && to != "" {
		e.Message = fmt.Sprintf("it redirects to %s; give that address", to)
	}
	if m := wrongItem.FindStringSubmatch(e.Field); m != nil && first >= 0 {
		within, _ := strconv.Atoi(m[1]) // digits
		e.Item = first + within
	}
	return e
}

// retryAfter reads seconds or a date (RFC 9110, section 10.2.3); 0 for neither.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if when, err := http.ParseTime(value); err == nil {
		return max(0, when.Sub(now))
	}
	return 0
}
