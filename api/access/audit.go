package access

import (
	"net/http"
	"sync/atomic"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"assay/api/internal/exchange"
	"assay/api/internal/httpjson"
	"assay/internal/errorcode"
	"assay/rewardmodel"
)

// The actions of the audit log, the values of its field audit.
const (
	actionRefused     = "refused" // a request without the scope that it needs
	ActionLabel       = "label"
	ActionWithdraw    = "withdraw"
	ActionErase       = "erase"
	ActionPromote     = "promote"
	ActionRollback    = "rollback"
	ActionTrain       = "train"
	ActionStop        = "stop_training"
	ActionSessionOpen = "session_open"
	ActionSessionEnd  = "session_end"
)

// Refused requests are recorded up to this rate, per second, and burst: an unauthenticated
// caller must not fill the disk.
const (
	refusedRate  = 10
	refusedBurst = 100
)

// AuditLog records who changed what, when, and with which result, one line each. It
// contains names and ids, but neither texts nor secrets. Its lines have no level, so
// that no --log-level drops them.
type AuditLog struct {
	log        zerolog.Logger
	refusals   *rate.Limiter
	suppressed atomic.Int64 // refused requests without a line, since the last one
}

// NewAuditLog returns an audit log that writes to log.
func NewAuditLog(log zerolog.Logger) *AuditLog {
	return &AuditLog{log: log, refusals: rate.NewLimiter(refusedRate, refusedBurst)}
}

// Changes records each request that h serves, also one that fails. Requests of unknown
// callers, any of which may try to open a session, and those beyond the limits of a caller
// are recorded like refused ones.
func (a *AuditLog) Changes(action string, h httpjson.Handler) httpjson.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		err := h(w, r)
		x := exchange.Of(r)
		if err != nil && (x.Caller == "" || x.Failure(err).Code == errorcode.RateLimited) && !a.refusals.Allow() {
			a.suppressed.Add(1)
			return err
		}
		a.record(action, x, r.RemoteAddr, err)
		return err
	}
}

// refused records a request whose caller may not make it.
func (a *AuditLog) refused(x *exchange.Exchange, c exchange.Caller, scope Scope, err error) {
	if !a.refusals.Allow() {
		a.suppressed.Add(1)
		return
	}
	line := a.line(actionRefused, x, c.Remote, err).Str("scope", string(scope))
	if n := a.suppressed.Swap(0); n > 0 {
		line.Int64("suppressed", n)
	}
	line.Send()
}

func (a *AuditLog) record(action string, x *exchange.Exchange, remote string, err error) {
	line := a.line(action, x, remote, err)
	if x.Subject != "" {
		line.Str("subject", rewardmodel.Shorten(x.Subject))
	}
	if x.Rater != "" {
		line.Str("rater", rewardmodel.Shorten(x.Rater))
	}
	if x.Items > 0 {
		line.Int("items", x.Items)
	}
	line.Send()
}

// line begins a line. The result is ok or an error code, since a message may quote what
// the client sent.
func (a *AuditLog) line(action string, x *exchange.Exchange, remote string, err error) *zerolog.Event {
	result := errorcode.Code("ok")
	if err != nil {
		result = x.Failure(err).Code
	}
	return a.log.Log().Str("audit", action).Str("by", x.Caller).Str("via", x.Via).Str("result", string(result)).
		Str("request_id", x.ID).Str("remote", remote)
}
