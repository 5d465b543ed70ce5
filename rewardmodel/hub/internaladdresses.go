package hub

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"
)

// dialGuard refuses connections to internal addresses, so that a hub cannot have this
// machine send requests into its own network by a redirect. It checks the address of
// each connection, not the name, which the hub's DNS could resolve to another address
// later. The first connection is to the endpoint, which the user chose: if that is
// internal, such as a mirror, all may be.
//
// A proxy connects on behalf of this machine, to where it allows; connections to it are
// not checked.
type dialGuard struct {
	internal func(netip.Addr) bool // tests replace it
	first    atomic.Int32          // the first connection: 0 none yet, or one of these
}

const (
	firstPublic   = 1
	firstInternal = 2
)

// proxied is the key of the context of a request that goes to a proxy.
type proxied struct{}

// install has the connections of a transport checked.
func (g *dialGuard) install(t *http.Transport) {
	direct := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second} // as of http.DefaultTransport
	checked := direct
	checked.Control = g.check
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if ctx.Value(proxied{}) != nil {
			return direct.DialContext(ctx, network, address)
		}
		return checked.DialContext(ctx, network, address)
	}
}

// check is the Control of a net.Dialer: address is what a name was resolved to.
func (g *dialGuard) check(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %q: %w: %w", address, err, ErrUnsafe)
	}
	internal := g.internal(to.Addr())
	first := int32(firstPublic)
	if internal {
		first = firstInternal
	}
	g.first.CompareAndSwap(0, first)
	if internal && g.first.Load() == firstPublic {
		return fmt.Errorf("%s is an internal address, to which a public hub may not redirect: %w", to.Addr(), ErrUnsafe)
	}
	return nil
}

// markProxied marks the context of a request that goes to a proxy.
func markProxied(req *http.Request, transport http.RoundTripper) *http.Request {
	t, ok := transport.(*http.Transport)
	if !ok || t.Proxy == nil {
		return req
	}
	if proxy, err := t.Proxy(req); err != nil || proxy == nil {
		return req
	}
	return req.WithContext(context.WithValue(req.Context(), proxied{}, true))
}

// isInternal reports whether an address is of this machine or of a private network:
// everything but global unicast, and of that the private and shared ranges, also in the
// IPv6 addresses that a translator maps to IPv4.
func isInternal(a netip.Addr) bool {
	a = a.Unmap()
	if translated := netip.MustParsePrefix("64:ff9b::/96"); translated.Contains(a.WithZone("")) {
		bytes := a.As16()
		a, _ = netip.AddrFromSlice(bytes[12:])
	}
	return !a.IsGlobalUnicast() || a.IsPrivate() || netip.MustParsePrefix("100.64.0.0/10").Contains(a)
}
