package api

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"assay/api/console"
	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/api/internal/httpjson"
)

// How a caller identified itself, other than by its address.
const (
	viaToken       = "token"
	viaSession     = "session"
	viaCertificate = "certificate"
)

// access decides who may call what.
type access struct {
	tokens        *Tokens // nil: there are none
	insecure      bool    // see Config.Insecure
	trustLoopback bool    // see Config.TrustLoopback
	sessions      *console.Sessions
	audit         *auditLog
}

// require lets only callers with a scope call h, within their limits.
//
// A caller presents a token of the token file, or a client certificate that the file
// names. Without a token file, callers on the same machine need none; with one they
// do, unless Config.TrustLoopback is set. A caller is on the same machine if its
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
func (a access) require(scope Scope, h httpjson.Handler) httpjson.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		x := exchange.Of(r)
		if err := a.admit(x, callerOf(r), scope); err != nil {
			// net/http reads the rest of the body before it sends the response.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(x.HeaderTimeout))
			return err
		}
		return h(w, r)
	}
}

// admit authorizes the caller of a new request, names it, and counts the request in
// its quota until the exchange ends.
func (a access) admit(x *exchange.Exchange, c exchange.Caller, scope Scope) error {
	g, err := a.authorize(c, scope)
	x.Caller, x.Via = g.name, g.via
	if err != nil {
		a.audit.refused(x, c, scope, err)
		return err
	}
	return x.Admit(g.name, g.quota)
}

// still returns a function that reports why the caller of a request that takes long may no
// longer use scope: its token may have been revoked.
func (a access) still(r *http.Request, scope Scope) func() error {
	return func() error { return a.check(callerOf(r), scope) }
}

// check returns why a caller may not use scope.
func (a access) check(c exchange.Caller, scope Scope) error {
	_, err := a.authorize(c, scope)
	return err
}

// isAdmin reports whether the caller has the scope admin.
func (a access) isAdmin(r *http.Request) bool { return a.check(callerOf(r), ScopeAdmin) == nil }

func callerOf(r *http.Request) exchange.Caller {
	return exchange.Caller{
		Remote: r.RemoteAddr, Host: r.Host, Authorization: r.Header.Values("Authorization"), Headers: r.Header,
		Certificate: exchange.CertificateOf(r.TLS), Session: sessionOf(r), CSRF: r.Header.Get(console.CSRFHeader), Changes: changes(r.Method),
	}
}

// authorize returns the grant of the caller, and why it may not use scope. It is
// the only place that decides, for HTTP and for gRPC.
func (a access) authorize(c exchange.Caller, scope Scope) (grant, error) {
	why := nonLocal(c)
	if a.tokens == nil {
		switch {
		case why == "":
			return grant{name: callerLocal, via: callerLocal}, nil
		case a.insecure:
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
	g, known := a.tokens.find(token)
	if !known {
		return grant{}, failure.Unauthorized(string(scope), "the token is unknown; ask the operator of the service for one", true)
	}
	g.via = viaToken
	return g, g.require(scope)
}

// withoutToken is authorize for a caller that sends no token to a service that has
// some. nonLocal is why the caller may be on another machine.
func (a access) withoutToken(c exchange.Caller, scope Scope, nonLocal string) (grant, error) {
	if g, session, ok := a.sessionOf(c); ok {
		if c.Changes && subtle.ConstantTimeCompare([]byte(c.CSRF), []byte(session.CSRF)) == 0 {
			return grant{}, failure.ForbiddenCSRF(console.CSRFHeader)
		}
		g.via = viaSession
		return g, g.require(scope)
	}
	if g, ok := a.tokens.findCertificate(c.Certificate); ok {
		g.via = viaCertificate
		return g, g.require(scope)
	}
	switch {
	case nonLocal == "" && a.trustLoopback:
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
func (a access) sessionOf(c exchange.Caller) (grant, console.Session, bool) {
	if c.Session == "" {
		return grant{}, console.Session{}, false
	}
	session, ok := a.sessions.Find(c.Session)
	if !ok {
		return grant{}, session, false
	}
	g, ok := a.tokens.findSum(session.Token)
	if !ok {
		a.sessions.End(c.Session)
	}
	return g, session, ok
}

// bearer parses the Authorization header (RFC 6750, section 2.1).
func bearer(values []string) (token string, ok bool) {
	if len(values) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.Trim(token, " ")
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
}

// nonLocal returns why a request may come from another machine, or "" if it does
// not.
func nonLocal(c exchange.Caller) string {
	if !isLoopbackPeer(c.Remote) {
		return "the request comes from another machine"
	}
	if header := forwardedBy(c.Headers); header != "" {
		return "the request comes through a proxy (header " + header + ")"
	}
	if !addressesMachine(c.Host) {
		return "the request names the service neither by an IP address nor as localhost"
	}
	return ""
}

func isLoopbackPeer(remote string) bool {
	peer, err := netip.ParseAddrPort(remote)
	return err == nil && peer.Addr().Unmap().IsLoopback()
}

// addressesMachine reports whether a Host header names the machine in a way that
// no foreign DNS server controls.
func addressesMachine(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return name == "" || strings.EqualFold(strings.TrimSuffix(name, "."), "localhost")
}
