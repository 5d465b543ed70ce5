package proxy

import (
	"context"
	"errors"
	"net/http"
)

// failure is an error in the format of OpenAI's API.
type failure struct {
	status        int
	code, message string
}

func failureOf(err error) failure {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return failure{http.StatusRequestEntityTooLarge, "too_large", "the request is larger than --max-body of the proxy"}
	case errors.Is(err, errBody):
		return failure{http.StatusBadRequest, "invalid_request", "the body of the request cannot be read, or takes too long"}
	case errors.Is(err, errBusy):
		return failure{http.StatusServiceUnavailable, "overloaded", errBusy.Error()}
	case errors.Is(err, errUnguarded):
		return failure{http.StatusForbidden, "not_guarded", errUnguarded.Error()}
	case errors.Is(err, errGuard):
		return failure{http.StatusServiceUnavailable, "guard_failed", "the response could not be scored, and the proxy fails closed"}
	case errors.Is(err, errMalformed), errors.Is(err, errEventSize):
		return failure{http.StatusBadGateway, "upstream_unreadable", "the proxy cannot read the response of the upstream"}
	case errors.Is(err, errIdle), errors.Is(err, context.DeadlineExceeded):
		return failure{http.StatusGatewayTimeout, "upstream_timeout", "the upstream sent nothing within --upstream-timeout of the proxy"}
	}
	return failure{http.StatusBadGateway, "upstream_unavailable", "the upstream of the proxy cannot be reached"}
}

type errorBody struct {
	Error errorDetail `json:"error"`
}

type errorDetail struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Code    string  `json:"code"`
	Param   *string `json:"param"`
}

func (f failure) body() errorBody {
	return errorBody{errorDetail{f.message, "assay_proxy_error", f.code, nil}}
}

// responseEvent is the event of the error in a stream of /v1/responses.
func (f failure) responseEvent() any {
	return struct {
		Type    string  `json:"type"`
		Code    string  `json:"code"`
		Message string  `json:"message"`
		Param   *string `json:"param"`
	}{"error", f.code, f.message, nil}
}

func (f failure) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	if f.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(f.status)
	_, _ = w.Write(encode(f.body())) // the client may have disconnected
}
