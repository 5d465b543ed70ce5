package access

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"assay/api/console"
	"assay/api/internal/exchange"
)

// CallerOf returns what a request shows of its sender.
func CallerOf(r *http.Request) exchange.Caller {
	return exchange.Caller{
		Remote: r.RemoteAddr, Host: r.Host, Authorization: r.Header.Values("Authorization"), Headers: r.Header,
		Certificate: exchange.CertificateOf(r.TLS), Session: SessionOf(r), CSRF: r.Header.Get(console.CSRFHeader), Changes: changes(r.Method),
	}
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

// NonLocal returns why a request may come from another machine, or "" if it does
// not.
func NonLocal(c exchange.Caller) string {
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
