// Package failure decides what a client is told about an error: the HTTP status,
// the gRPC code, the machine-readable code, the message and when to retry. It is
// the only place that maps errors; table.go holds the mapping.
//
// The status 429 is never used: trainers that do not retry a 4xx would end their
// run on it. Overload is 503 with Retry-After.
package failure

import "time"

// Failure is what a client is told about an error.
type Failure struct {
	Status     int    // HTTP status
	Code       string // machine-readable, such as "too_large"
	Field      string // path of the wrong field or name of the header; "" for the whole request
	Message    string
	RetryAfter time.Duration // 0: the client is not asked to retry
	Challenge  string        // value of WWW-Authenticate
}

// Encoder words a failure as the protocol of another project does. It returns
// the HTTP status and the JSON value of the body. Every protocol uses 503 for
// overload.
type Encoder func(f Failure) (status int, body any)

// Text returns the field and the message, for protocols without a place for the
// field.
func (f Failure) Text() string {
	if f.Field == "" {
		return f.Message
	}
	return f.Field + ": " + f.Message
}

// Param returns the wrong field, nil if there is none.
func (f Failure) Param() *string {
	if f.Field == "" {
		return nil
	}
	return &f.Field
}

// Body is the JSON of a failure on assay's own endpoints, without the enclosing
// object.
type Body struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Field     string `json:"field,omitempty"`
	RequestID string `json:"request_id"`
}

// Response is the JSON body of a failed request on assay's own endpoints.
type Response struct {
	Error Body `json:"error"`
}

// Body returns f with the id of the request.
func (f Failure) Body(requestID string) Body {
	return Body{Code: f.Code, Message: f.Message, Field: f.Field, RequestID: requestID}
}
