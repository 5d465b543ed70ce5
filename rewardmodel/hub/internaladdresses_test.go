package hub

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// The endpoint of the test is on 127.0.0.2, which counts as public here, and redirects
// to a server on 127.0.0.1, by its address and by a name.
func TestRedirectsToInternalAddresses(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skip("this system has one loopback address only: ", err)
	}
	var reached atomic.Int32
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer inside.Close()
	at, err := url.Parse(inside.URL)
	require.NoError(t, err)
	var target atomic.Pointer[string]
	endpoint := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, *target.Load(), http.StatusFound)
	}))
	endpoint.Listener.Close()
	endpoint.Listener = listener
	endpoint.Start()
	defer endpoint.Close()

	pull := func(public string) error {
		c, err := New(Config{Endpoint: endpoint.URL, Attempts: 1})
		require.NoError(t, err)
		defer c.Close()
		c.guard.internal = func(a netip.Addr) bool { return a.String() != public && isInternal(a) }
		_, _, err = c.Pull(t.Context(), Request{Repo: repo, Dir: filepath.Join(t.TempDir(), "x")})
		return err
	}
	for _, host := range []string{"127.0.0.1", "localhost"} {
		to := "http://" + host + ":" + at.Port() + "/latest/meta-data?token=secret"
		target.Store(&to)
		err := pull("127.0.0.2")
		require.ErrorIs(t, err, ErrUnsafe, host)
		require.ErrorContains(t, err, host)
		require.ErrorContains(t, err, "is an internal address")
		require.NotContains(t, err.Error(), "secret")
		require.Zero(t, reached.Load(), host)

		require.NotErrorIs(t, pull("none"), ErrUnsafe, "a mirror on an internal address may redirect to another one")
		require.NotZero(t, reached.Swap(0), host)
	}
}

func TestInternalAddresses(t *testing.T) {
	for _, text := range strings.Fields("127.0.0.1 127.9.9.9 ::1 0.0.0.0 :: 10.1.2.3 172.16.0.1 192.168.1.1 fd00::1 169.254.169.254 fe80::1 fe80::1%eth0 " +
		"100.64.0.1 100.100.100.200 224.0.0.1 ff02::1 255.255.255.255 ::ffff:127.0.0.1 ::ffff:10.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b::7f00:1") {
		require.True(t, isInternal(netip.MustParseAddr(text)), text)
	}
	for _, text := range strings.Fields("1.1.1.1 172.32.0.1 192.169.0.1 100.128.0.1 2606:4700::1111 ::ffff:8.8.8.8 64:ff9b::808:808") {
		require.False(t, isInternal(netip.MustParseAddr(text)), text)
	}
}

// A proxy on an internal address is used, whatever the first connection was to.
func TestProxyOnAnInternalAddress(t *testing.T) {
	var asked atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusNotFound)
	}))
	defer proxy.Close()
	at, err := url.Parse(proxy.URL)
	require.NoError(t, err)
	c, err := New(Config{Endpoint: "http://hub.example", Attempts: 1})
	require.NoError(t, err)
	defer c.Close()
	c.guard.first.Store(firstPublic)
	c.http.Transport.(*transport).next.(*http.Transport).Proxy = http.ProxyURL(at)
	_, _, err = c.Pull(t.Context(), Request{Repo: repo, Dir: filepath.Join(t.TempDir(), "x")})
	require.ErrorIs(t, err, ErrNotFound)
	require.NotZero(t, asked.Load())
}
