package access

import (
	"crypto/subtle"
	"net/http"
	"time"

	"assay/api/console"
	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/api/internal/httpjson"
	"assay/rewardmodel"
)

// How a caller identified itself, other than by its address.
const (
	viaToken       = "token"
	viaSession     = "session"
	viaCertificate = "certificate"
)

// Authorizer decides who may call what, over HTTP and gRPC.
type Authorizer struct {
	// Tokens identify callers; nil: only callers on the same machine, or everybody with
	// Insecure.
	Tokens *Tokens
	// Insecure admits callers on other machines without tokens. It has no effect with
	// Tokens.
	Insecure bool
	// TrustLoopback admits callers on the same machine without a token although there
	// are tokens.
	TrustLoopback bool
	Sessions      *console.Sessions
	Audit         *AuditLog
}

// Require lets only callers with a scope call h, within their limits.
//
// A caller presents a token of the token file, or a client certificate that the file
// names. Without a token file, callers on the same machine need none; with one they
// do, unless TrustLoopback is set. A caller is on the same machine if its
// address is a loopback address, no header shows that a proxy forwarded the request,
// and it addresses the service by an IP address or as localhost. The last condition
// excludes a web page whose own host name resolves to a loopback address (DNS
// rebinding). A caller that presents a token has only the scopes of that token, where
// there are tokens.
//
// The console presents the cookie of a session instead, which has the scopes of the
// token that opened it. Requests other than GET and HEAD then need the CSRF token of
// the session as well. An Authorization header takes precedence over a cookie, and a
// cookie over a certificate.
func (a Authorizer) Require(scope Scope, h httpjson.Handler) httpjson.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		x := exchange.Of(r)
		if err := a.Admit(x, CallerOf(r), scope); err != nil {
			// net/http reads the rest of the body before it sends the response.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(x.HeaderTimeout))
			return err
		}
		return h(w, r)
	}
}

// Admit authorizes the caller of a new request, names it, charges the memory of any
// request, and counts the request in its quota until the exchange ends.
func (a Authorizer) Admit(x *exchange.Exchange, c exchange.Caller, scope Scope) error {
	g, err := a.authorize(c, scope)
	x.Caller, x.Via = g.name, g.via
	if err != nil {
		a.Audit.refused(x, c, scope, err)
		return err
	}
	if scope != ScopeAdmin { // who operates the service must get in while it is full
		if err := x.Memory.Keep(rewardmodel.RequestBytes); err != nil {
			return err
		}
	}
	return x.Admit(g.name, g.quota)
}

// StillAllowed returns a function that reports why the caller of a request that takes long may no
// longer use scope: its token may have been revoked.
func (a Authorizer) StillAllowed(r *http.Request, scope Scope) func() error {
	return func() error { return a.Check(CallerOf(r), scope) }
}

// Check returns why a caller may not use scope.
func (a Authorizer) Check(c exchange.Caller, scope Scope) error {
	_, err := a.authorize(c, scope)
	return err
}

// IsAdmin reports whether the caller has the scope admin.
func (a Authorizer) IsAdmin(r *http.Request) bool {
	return a.Check(CallerOf(r), ScopeAdmin) == nil
}

// MayBeRebound reports whether a request may come from a web page whose own host name
// resolves to a loopback address (DNS rebinding) and that may read what callers on the
// same machine may read without a token. Where there are tokens, one identifies a client
// that is no such page; without, the page may set the header itself.
func (a Authorizer) MayBeRebound(c exchange.Caller) bool {
	open := a.TrustLoopback || a.Tokens == nil && !a.Insecure
	identified := a.Tokens != nil && (len(c.Authorization) > 0 || forwardedBy(c.Headers) != "")
	return open && !identified && isLoopbackPeer(c.Remote) && !addressesMachine(c.Host)
}

// authorize returns the grant of the caller, and why it may not use scope. It is
// the only place that decides, for HTTP and for gRPC.
func (a Authorizer) authorize(c exchange.Caller, scope Scope) (grant, error) {
	why := NonLocal(c)
	if a.Tokens == nil {
		switch {
		case why == "":
			return grant{name: callerLocal, via: callerLocal}, nil
		case a.Insecure:
			return grant{name: callerAny, via: callerAny}, nil
		}
		return grant{}, failure.Unauthorized(string(scope), why+", and the service has no tokens to identify its sender; start it with --token-file FILE or --private, or with --insecure where nobody else can reach it", false)
	}
	if len(c.Authorization) == 0 {
		return a.withoutToken(c, scope, why)
	}
	token, ok := bearer(c.Authorization)
	if !ok {
		return grant{}, failure.Unauthorized(string(scope), "the header is not a single bearer token; send Authorization: Bearer TOKEN", true)
	}
	g, known := a.Tokens.find(token)
	if !known {
		return grant{}, failure.Unauthorized(string(scope), "the token is unknown; ask the operator of the service for one", true)
	}
	g.via = viaToken
	return g, g.require(scope)
}

// withoutToken is authorize for a caller that sends no token to a service that has
// some. nonLocal is why the caller may be on another machine.
func (a Authorizer) withoutToken(c exchange.Caller, scope Scope, nonLocal string) (grant, error) {
	if g, session, ok := a.sessionOf(c); ok {
		if c.Changes && subtle.ConstantTimeCompare([]byte(c.CSRF), []byte(session.CSRF)) == 0 {
			return grant{}, failure.ForbiddenCSRF(console.CSRFHeader)
		}
		g.via = viaSession
		return g, g.require(scope)
	}
	if g, ok := a.Tokens.findCertificate(c.Certificate); ok {
		g.via = viaCertificate
		return g, g.require(scope)
	}
	switch {
	case nonLocal == "" && a.TrustLoopback:
		return grant{name: callerLocal, via: callerLocal}, nil
	case nonLocal == "":
		nonLocal = "the service has tokens, which callers on the same machine need as well, unless it runs with --trust-loopback"
	case c.Certificate != nil:
		nonLocal = "the token file has no line for the client certificate"
	}
	return grant{}, failure.Unauthorized(string(scope), nonLocal+"; send Authorization: Bearer TOKEN", false)
}

// sessionOf returns the session of the console that a caller has, and what its
// token allows now. A session ends when its token is removed.
func (a Authorizer) sessionOf(c exchange.Caller) (grant, console.Session, bool) {
	if c.Session == "" {
		return grant{}, console.Session{}, false
	}
	session, ok := a.Sessions.Find(c.Session)
	if !ok {
		return grant{}, session, false
	}
	g, ok := a.Tokens.findSum(session.Token)
	if !ok {
		a.Sessions.End(c.Session)
	}
	return g, session, ok
}
