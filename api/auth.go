package api

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// needs lets e answer callers that may use scope, and no others.
//
// A caller presents a token of the token file. Without a token file, callers on
// the same machine need none; with one they do, unless Config.TrustLoopback is
// set. A caller is on the same machine when its address is a loopback one, no
// header shows that a proxy forwarded the request, and it addresses the service
// by an IP address or as localhost. The last keeps out a web page whose own host
// name resolves to a loopback address (DNS rebinding). A caller that presents a
// token has only the scopes of that token, where there are tokens.
func (s *Server) needs(scope Scope, e endpoint) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		name, err := s.authorize(callerOf(r), scope)
		exchangeOf(r).by = name
		if err != nil {
			// net/http reads what comes of the body before it answers.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.cfg.HeaderTimeout))
			return err
		}
		return e(w, r)
	}
}

// caller is what a request shows of its sender, over HTTP and gRPC alike.
type caller struct {
	remote    string   // address of the connection
	host      string   // how it names the service
	forwarded string   // a header that only a proxy adds, if any
	presented []string // values of Authorization
}

func callerOf(r *http.Request) caller {
	return caller{remote: r.RemoteAddr, host: r.Host, forwarded: forwardedBy(r.Header), presented: r.Header.Values("Authorization")}
}

// authorize returns the name of the caller, or why it may not use scope. It is
// the only place that decides so, for HTTP and for gRPC.
func (s *Server) authorize(c caller, scope Scope) (string, error) {
	why := c.nonLocal()
	if s.parts.Tokens == nil {
		switch {
		case why == "":
			return callerLocal, nil
		case s.cfg.Insecure:
			return callerAny, nil
		}
		return "", errUnauthorized(scope, why+", and the service has no tokens to identify its sender; start it with --token-file FILE or --private, or with --insecure where nobody else can reach it", false)
	}
	if len(c.presented) == 0 {
		switch {
		case why == "" && s.cfg.TrustLoopback:
			return callerLocal, nil
		case why == "":
			why = "the service has tokens, which callers on the same machine need, too, unless it runs with --trust-loopback"
		}
		return "", errUnauthorized(scope, why+"; send Authorization: Bearer TOKEN", false)
	}
	token, ok := bearer(c.presented)
	if !ok {
		return "", errUnauthorized(scope, "the header is not a single bearer token; send Authorization: Bearer TOKEN", true)
	}
	g, known := s.parts.Tokens.find(token)
	switch {
	case !known:
		return "", errUnauthorized(scope, "the service does not know this token; ask its operator for one", true)
	case !g.allows(scope):
		return g.name, errScope(scope)
	}
	return g.name, nil
}

// bearer reads the Authorization header (RFC 6750, section 2.1).
func bearer(values []string) (token string, ok bool) {
	if len(values) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.Trim(token, " ")
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
}

// nonLocal returns why a request may come from another machine, or "" when it
// does not.
func (c caller) nonLocal() string {
	peer, err := netip.ParseAddrPort(c.remote)
	if err != nil || !peer.Addr().Unmap().IsLoopback() {
		return "the request comes from another machine"
	}
	if c.forwarded != "" {
		return "the request comes through a proxy (header " + c.forwarded + ")"
	}
	if !addressesUs(c.host) {
		return "the request names the service neither by an IP address nor as localhost"
	}
	return ""
}

// addressesUs reports whether a Host header names the machine in a way that no
// foreign DNS server controls.
func addressesUs(host string) bool {
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
