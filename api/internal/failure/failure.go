// Package failure maps an error to its response: the code, the message, the
// invalid field and when to retry. Package errorcode has the table from
// errors to codes, and from codes to the statuses of HTTP and gRPC.
package failure

import (
	"time"

	"assay/internal/errorcode"
)

// Failure is the response to an error.
type Failure struct {
	Code       errorcode.Code
	Field      string // path of the wrong field or name of the header; "" for the whole request
	Message    string
	RetryAfter time.Duration // 0: the client is not asked to retry
	Challenge  string        // value of WWW-Authenticate
}

// Encoder words a failure as the protocol of another project does. It returns
// the HTTP status and the JSON value of the body. Every protocol uses 503 for
// overload.
type Encoder func(f Failure) (status int, body any)

// Status returns the HTTP status.
func (f Failure) Status() int { return f.Code.HTTP() }

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
	Code      errorcode.Code `json:"code"`
	Message   string         `json:"message"`
	Field     string         `json:"field,omitempty"`
	RequestID string         `json:"request_id"`
}

// Response is the JSON body of a failed request on assay's own endpoints.
type Response struct {
	Error Body `json:"error"`
}

// Body returns f with the id of the request.
func (f Failure) Body(requestID string) Body {
	return Body{Code: f.Code, Message: f.Message, Field: f.Field, RequestID: requestID}
}
