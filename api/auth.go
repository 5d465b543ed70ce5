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
// A caller shows a token of the token file. Only callers on the same machine
// need none: their address is a loopback one, no proxy stands in front of them,
// and they address the service by an IP address or as localhost. The last keeps
// a web page out that has its own host name resolve to a loopback address (DNS
// rebinding). Who does show a token is held to it.
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

// caller is what a request says of who sends it.
type caller struct {
	remote    string   // address of the connection
	host      string   // how it names the service
	proxy     string   // the header that a proxy left, if any
	presented []string // values of Authorization
}

func callerOf(r *http.Request) caller {
	return caller{remote: r.RemoteAddr, host: r.Host, proxy: proxyIn(r.Header.Get), presented: r.Header.Values("Authorization")}
}

// proxyIn names the header that a proxy left, "" without one.
func proxyIn(get func(header string) string) string {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip"} {
		if get(name) != "" {
			return name
		}
	}
	return ""
}

// authorize returns the name of the caller, or why it may not.
func (s *Server) authorize(c caller, scope Scope) (string, error) {
	stranger := c.strangeness()
	if s.parts.Tokens == nil {
		switch {
		case stranger == "":
			return callerLocal, nil
		case s.cfg.Insecure:
			return callerAny, nil
		}
		return "", errUnauthorized(scope, stranger+", and the service has no tokens that could tell who it is; start it with --token-file FILE, or with --insecure where nobody else reaches it", false)
	}
	if len(c.presented) == 0 {
		if stranger == "" {
			return callerLocal, nil
		}
		return "", errUnauthorized(scope, stranger+", so that a token is needed; send Authorization: Bearer TOKEN", false)
	}
	token, ok := bearer(c.presented)
	if !ok {
		return "", errUnauthorized(scope, "the header is not one bearer token; send Authorization: Bearer TOKEN", true)
	}
	g, known := s.parts.Tokens.find(token)
	switch {
	case !known:
		return "", errUnauthorized(scope, "the token is not one of the token file; ask whoever runs the service for one", true)
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

// strangeness says why a request may come from another machine, or nothing
// when it does not.
func (c caller) strangeness() string {
	peer, err := netip.ParseAddrPort(c.remote)
	if err != nil || !peer.Addr().Unmap().IsLoopback() {
		return "the request comes from another machine"
	}
	if c.proxy != "" {
		return "the request comes through a proxy (header " + c.proxy + ")"
	}
	if !addressesUs(c.host) {
		return "the request names the service neither by an IP address nor as localhost"
	}
	return ""
}

// addressesUs tells whether a Host header names the machine in a way that no
// foreign name server can.
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
