package api

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"assay/rewardmodel"
	"assay/rewardmodel/wire"
)

func (s *Server) score(w http.ResponseWriter, r *http.Request) error {
	body, _, err := s.readBody(w, r, mediaJSON)
	if err != nil {
		return err
	}
	x := exchangeOf(r)
	if err := x.memory.Grow(wire.DecodeBytes(body)); err != nil {
		return err
	}
	request, err := wire.DecodeRequest(body, s.limits.Load().scoring)
	if err != nil {
		return err
	}
	x.responses = len(request.Responses)
	request.Priority, request.Memory = x.priority, x.memory
	answer, err := s.parts.Scorer.Score(r.Context(), request)
	if err != nil {
		return err
	}
	out, err := render(x.memory, func(to io.Writer) error { return wire.WriteAnswer(to, answer) })
	if err != nil {
		return err
	}
	s.write(w, r, http.StatusOK, out)
	return nil
}

// timely ends a request that takes longer than its client or the service
// waits.
func (s *Server) timely(e endpoint) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		timeout, err := s.timeout(r.Header.Get(timeoutHeader))
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		return e(w, r.WithContext(ctx))
	}
}

const (
	timeoutHeader  = "X-Request-Timeout"
	priorityHeader = "X-Priority"
)

// prioritized reads how urgent a request is.
func prioritized(e endpoint) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := prioritize(r.Context(), r.Header.Get(priorityHeader)); err != nil {
			return err
		}
		return e(w, r)
	}
}

// prioritize keeps the priority that the client asked for, if any.
func prioritize(ctx context.Context, asked string) (err error) {
	exchangeIn(ctx).priority, err = rewardmodel.ParsePriority(priorityHeader, asked)
	return err
}

// timeout reads how long the client is willing to wait: seconds ("30", "0.5")
// or a Go duration ("1m30s"). The service's own limit is the most it can be.
func (s *Server) timeout(asked string) (time.Duration, error) {
	if asked == "" {
		return s.cfg.RequestTimeout, nil
	}
	wait, err := time.ParseDuration(asked)
	if seconds, notNumber := strconv.ParseFloat(asked, 64); notNumber == nil {
		// Compared as seconds: a large number would overflow a duration.
		wait, err = 0, nil
		if seconds > 0 { // and a number
			wait = time.Duration(min(seconds, s.cfg.RequestTimeout.Seconds()) * float64(time.Second))
		}
	}
	if err != nil || wait <= 0 {
		return 0, errInvalid(timeoutHeader, "%.50q is not a time to wait; send seconds, such as 30 or 0.5, or a duration such as 1m30s", asked)
	}
	return min(wait, s.cfg.RequestTimeout), nil
}
