package failure

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"assay/internal/errorcode"
	"assay/rewardmodel"
)

// retryWhenFull is the delay that a full feedback store advises: an operator must
// erase data or raise a limit first.
const retryWhenFull = time.Minute

// Details are what the messages of some failures mention.
type Details struct {
	RequestID      string
	RetryAfter     time.Duration // advised when the service is not ready
	RequestTimeout time.Duration // maximum time of a request
}

// Of returns the response to err. What the message quotes of the
// client's data is shortened.
func Of(err error, d Details) Failure {
	f := of(err, d)
	f.Field, f.Message = rewardmodel.Shorten(f.Field), rewardmodel.Shorten(f.Message)
	return f
}

func of(err error, d Details) Failure {
	var own *Error
	var input *rewardmodel.InputError
	var overloaded *rewardmodel.OverloadedError
	switch {
	case errors.As(err, &own):
		return Failure(*own)
	case errors.As(err, &input):
		return Failure{Code: errorcode.Of(input), Field: input.Field, Message: input.Message}
	case errors.As(err, &overloaded):
		return Failure{Code: errorcode.Overloaded, Message: overloaded.Error(), RetryAfter: overloaded.RetryAfter}
	}
	code := errorcode.Of(err)
	f := Failure{Code: code, Message: message(code, err, d)}
	if f.Status() == http.StatusServiceUnavailable {
		f.RetryAfter = d.RetryAfter
	}
	if code == errorcode.StoreFull {
		f.RetryAfter = max(d.RetryAfter, retryWhenFull)
	}
	return f
}

// message returns the text of a sentinel error with the fix. The text of an
// internal error is for the log only.
func message(code errorcode.Code, err error, d Details) string {
	switch code {
	case errorcode.DeadlineExceeded:
		return fmt.Sprintf("the request timed out (%v); set a longer timeout with the header X-Request-Timeout (at most --request-timeout, %v), or send fewer responses per request", err, d.RequestTimeout)
	case errorcode.ClientGone:
		return "the client closed the connection before the response"
	case errorcode.NotFound:
		return err.Error() + "; GET /v1/models lists them"
	case errorcode.NoPrevious:
		return err.Error() + "; the first version serves"
	case errorcode.NoFiles:
		return err.Error() + "; choose a version that was promoted and is kept"
	case errorcode.Damaged:
		return err.Error() + "; choose another version"
	case errorcode.Changed:
		return err.Error() + "; check the current state, and retry if the change is still right"
	case errorcode.ModelFailed:
		return "the model failed on this request; the log of the service has the reason under request id " + d.RequestID
	case errorcode.Internal:
		return "the service failed on this request; its log has the reason under request id " + d.RequestID
	}
	return err.Error()
}
