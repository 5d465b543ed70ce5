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

// Categories of error statuses, for errors.Is.
var (
	ErrInvalid      = errors.New("invalid request")                                      // 400, 413, 415, 422
	ErrUnauthorized = errors.New("token missing, unknown or without the required scope") // 401, 403
	ErrNotFound     = errors.New("not found")                                            // 404, 405
	ErrConflict     = errors.New("not allowed in the current state of the models")       // 409
	ErrNotEnabled   = errors.New("not enabled on this service")                          // 501
	ErrUnavailable  = errors.New("service unavailable")                                  // 429, 502, 503, 504
)

// APIError is an error status of the service or of a proxy in front of it.
type APIError struct {
	Status     int           // HTTP status code
	Code       string        // machine-readable, such as "overloaded"; "" if it is not a response of the service
	Message    string        // human-readable
	Field      string        // path of the offending value in the request, or ""
	RequestID  string        // identifies the request in the log of the service
	RetryAfter time.Duration // 0 if not given
	Item       int           // index of the offending item in the caller's input, or -1
}

func (e *APIError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the service returned %d", e.Status)
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

// Is reports whether target is the category of the status: ErrInvalid,
// ErrUnauthorized, ErrNotFound, ErrConflict, ErrNotEnabled or ErrUnavailable.
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

// notProcessed reports whether the service has certainly not applied the request.
// An unreachable store ("unavailable") may have applied it, and a status without
// a code comes from a proxy.
func (e *APIError) notProcessed() bool {
	switch e.Code {
	case "overloaded", "not_ready", "shutting_down", "store_full":
		return e.Status == http.StatusServiceUnavailable
	case "rate_limited":
		return e.Status == http.StatusTooManyRequests
	}
	return false
}

// tooLarge reports whether the service refused a request of n items for its size. The
// error then names the item if there is only one, whose index is first.
func tooLarge(err error, first, n int) bool {
	var apiErr *APIError
	if !errors.As(err, &apiErr) || apiErr.Status != http.StatusRequestEntityTooLarge {
		return false
	}
	if n == 1 && apiErr.Item < 0 {
		apiErr.Item = first
	}
	return true
}

// TransportError means that there was no response, or an incomplete one.
type TransportError struct {
	Sent bool // a connection was established: the service may have received the request
	Err  error
}

func (e *TransportError) Error() string {
	if e.Sent {
		return "no response: " + e.Err.Error()
	}
	return "no connection: " + e.Err.Error()
}

func (e *TransportError) Unwrap() error { return e.Err }

// InvalidResponseError means that the response is not a valid assay response: it
// is malformed JSON, or a value is missing or out of range.
type InvalidResponseError struct {
	Err error
}

func (e *InvalidResponseError) Error() string {
	return "invalid response: " + e.Err.Error()
}

func (e *InvalidResponseError) Unwrap() error { return e.Err }

func invalidResponse(format string, args ...any) error {
	return &InvalidResponseError{fmt.Errorf(format, args...)}
}

// InputError means that an argument cannot be sent. Nothing was sent.
type InputError struct {
	Item    int    // index of the item in the caller's input, or -1
	Field   string // field of the item, or name of the argument
	Message string
}

func (e *InputError) Error() string {
	if e.Item < 0 {
		return fmt.Sprintf("%s: %s", e.Field, e.Message)
	}
	return fmt.Sprintf("item %d: %s: %s", e.Item, e.Field, e.Message)
}

// Is reports whether target is ErrInvalid.
func (e *InputError) Is(target error) bool { return target == ErrInvalid }

// offendingItem matches the path of the offending item of a request.
var offendingItem = regexp.MustCompile(`^(?:responses|items)\[(\d{1,9})\]`)

// newAPIError parses an error response. first is the index in the caller's input
// of the first item of the request, or -1.
func newAPIError(response *http.Response, body []byte, first int, now time.Time) *APIError {
	e := &APIError{Status: response.StatusCode, Item: -1, RetryAfter: retryAfter(response.Header.Get("Retry-After"), now)}
	var payload struct {
		Error struct {
			Code      string `json:"code"`
			Message   string `json:"message"`
			Field     string `json:"field"`
			RequestID string `json:"request_id"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &payload) == nil && payload.Error.Message != "" {
		e.Code, e.Message, e.Field, e.RequestID = payload.Error.Code, payload.Error.Message, payload.Error.Field, payload.Error.RequestID
	} else {
		e.Message = strings.TrimSpace(fmt.Sprintf("%s %.200s", http.StatusText(response.StatusCode), body))
	}
	if to := response.Header.Get("Location"); response.StatusCode/100 == 3 && to != "" {
		e.Message = fmt.Sprintf("redirect to %s; use that address", to)
	}
	if m := offendingItem.FindStringSubmatch(e.Field); m != nil && first >= 0 {
		within, _ := strconv.Atoi(m[1]) // digits
		e.Item = first + within
	}
	return e
}

// retryAfter parses seconds or a date (RFC 9110, section 10.2.3); 0 for neither.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if when, err := http.ParseTime(value); err == nil {
		return max(0, when.Sub(now))
	}
	return 0
}
