package servertls_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/internal/servertls"
	"assay/internal/servertls/tlstest"
)

// handshake connects to a server once. The client reads a byte, since with TLS 1.3 it
// hears of the rejection of its certificate only then.
func handshake(t *testing.T, server, client *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", server)
	require.NoError(t, err)
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err == nil {
			_, _ = conn.Write([]byte{1})
			_ = conn.Close()
		}
	}()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", l.Addr().String(), client)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer conn.Close()
	_, err = conn.Read(make([]byte, 1))
	return conn.ConnectionState(), err
}

func TestHandshakes(t *testing.T) {
	ours, others := tlstest.NewAuthority(t), tlstest.NewAuthority(t)
	cert, key, ca := ours.Write(t, t.TempDir())
	identity, err := servertls.Load(servertls.Files{Cert: cert, Key: key, ClientCA: ca}, zerolog.Nop())
	require.NoError(t, err)
	server := identity.Config(tls.VerifyClientCertIfGiven, "h2", "http/1.1")

	state, err := handshake(t, server, ours.Client(t, ""))
	require.NoError(t, err, "without a certificate")
	require.Equal(t, uint16(tls.VersionTLS13), state.Version)
	_, err = handshake(t, server, ours.Client(t, "trainer"))
	require.NoError(t, err)
	_, err = handshake(t, identity.Config(tls.RequireAndVerifyClientCert), ours.Client(t, ""))
	require.Error(t, err, "a server that requires a certificate")
	foreign := others.Client(t, "trainer")
	foreign.RootCAs = ours.Pool()
	_, err = handshake(t, server, foreign)
	require.Error(t, err, "a certificate of another authority")
	_, err = handshake(t, server, ours.Client(t, "trainer", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }))
	require.Error(t, err, "an expired certificate")
	_, err = handshake(t, server, ours.Client(t, "trainer", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }))
	require.Error(t, err, "the certificate of a server")
	old := ours.Client(t, "")
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	_, err = handshake(t, server, old)
	require.Error(t, err, "TLS 1.1")
	protocols := ours.Client(t, "")
	protocols.NextProtos = []string{"h2"}
	state, err = handshake(t, server, protocols)
	require.NoError(t, err)
	require.Equal(t, "h2", state.NegotiatedProtocol)
}

// Certificate and key are replaced one after the other, as certificate managers do.
func TestFilesAreReloaded(t *testing.T) {
	dir := t.TempDir()
	before, after := tlstest.NewAuthority(t), tlstest.NewAuthority(t)
	cert, key, _ := before.Write(t, dir)
	identity, err := servertls.Load(servertls.Files{Cert: cert, Key: key}, zerolog.Nop())
	require.NoError(t, err)
	go identity.Watch(t.Context())
	server := identity.Config(tls.NoClientCert)
	accepted := func(a *tlstest.Authority) bool { _, err := handshake(t, server, a.Client(t, "")); return err == nil }
	require.True(t, accepted(before))

	next := t.TempDir()
	after.Write(t, next)
	require.NoError(t, os.Rename(filepath.Join(next, "cert.pem"), cert))
	require.Never(t, func() bool { return !accepted(before) }, 1500*time.Millisecond, 300*time.Millisecond, "the key does not belong to the certificate")
	require.NoError(t, os.Rename(filepath.Join(next, "key.pem"), key))
	require.Eventually(t, func() bool { return accepted(after) }, 20*time.Second, 100*time.Millisecond)
	require.False(t, accepted(before))
}

func TestInvalidFiles(t *testing.T) {
	dir := t.TempDir()
	cert, key, ca := tlstest.NewAuthority(t).Write(t, dir)
	empty := filepath.Join(dir, "empty.pem")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for name, c := range map[string]struct {
		files   servertls.Files
		message string
	}{
		"no key":         {servertls.Files{Cert: cert}, "--tls-key is missing"},
		"no certificate": {servertls.Files{Key: key}, "--tls-cert is missing"},
		"CA only":        {servertls.Files{ClientCA: ca}, "--tls-cert is missing"},
		"missing file":   {servertls.Files{Cert: filepath.Join(dir, "none.pem"), Key: key}, "no such file"},
		"swapped":        {servertls.Files{Cert: key, Key: cert}, "TLS certificate"},
		"other key":      {servertls.Files{Cert: ca, Key: key}, "private key does not match"},
		"empty CA":       {servertls.Files{Cert: cert, Key: key, ClientCA: empty}, "has no certificate in PEM format"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := servertls.Load(c.files, zerolog.Nop())
			require.ErrorContains(t, err, c.message)
		})
	}
	require.NoError(t, servertls.Files{}.Check())
}
