package queue

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/jstest"
)

// certificates writes a CA and a certificate of it for 127.0.0.1, good for
// servers and clients.
func certificates(t *testing.T) (ca, cert, key string) {
	t.Helper()
	dir := t.TempDir()
	newKey := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		return k
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caKey := newKey()
	caDER, err := x509.CreateCertificate(rand.Reader, authority, authority, &caKey.PublicKey, caKey)
	require.NoError(t, err)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "nats"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	leafKey := newKey()
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, authority, &leafKey.PublicKey, caKey)
	require.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(leafKey)
	require.NoError(t, err)
	return write("ca.pem", "CERTIFICATE", caDER), write("cert.pem", "CERTIFICATE", leafDER), write("key.pem", "EC PRIVATE KEY", keyDER)
}

func TestExternalServerWithPasswordAndTLS(t *testing.T) {
	t.Parallel()
	ca, cert, key := certificates(t)
	tlsConfig, err := server.GenTLSConfig(&server.TLSConfigOpts{CertFile: cert, KeyFile: key, CaFile: ca, Verify: true})
	require.NoError(t, err)
	srv := jstest.Server(t, &server.Options{Username: "assay", Password: "p@ss", TLSConfig: tlsConfig})
	address := strings.TrimPrefix(strings.TrimPrefix(srv.ClientURL(), "nats://"), "tls://")

	cfg := testConfig(t)
	cfg.Conn = ConnConfig{URL: "tls://assay:p%40ss@" + address, CA: ca, Cert: cert, Key: key}
	q := startQueue(t, cfg, scorerFunc(good))
	publish(t, q, "x", "1", item("text"))
	awaitEmpty(t, q)
	require.Equal(t, 1, jstest.Count(q.js, StreamRewards))
	require.NotContains(t, q.URL(), "p@ss")
	require.NotContains(t, q.URL(), "p%40ss")

	// A refused connection is an error immediately.
	var unknown x509.UnknownAuthorityError
	for name, tc := range map[string]struct {
		cfg  ConnConfig
		want any
	}{
		"password":       {ConnConfig{URL: "tls://assay:no@" + address, CA: ca, Cert: cert, Key: key}, nats.ErrAuthorization},
		"no authority":   {ConnConfig{URL: "tls://assay:p%40ss@" + address, Cert: cert, Key: key}, &unknown},
		"no certificate": {ConnConfig{URL: "tls://assay:p%40ss@" + address, CA: ca}, "tls"},
		"CA missing":     {ConnConfig{URL: "tls://x@" + address, CA: "nowhere.pem"}, "nowhere.pem"},
		"key missing":    {ConnConfig{URL: "tls://x@" + address, Cert: cert}, "NATS setting Cert"},
		"creds missing":  {ConnConfig{URL: "nats://" + address, Creds: "nowhere.creds"}, "nowhere.creds"},
		"nkey missing":   {ConnConfig{URL: "nats://" + address, NKey: "nowhere.nk"}, "nowhere.nk"},
		"URL empty":      {ConnConfig{}, "NATS setting URL"},
		"URL malformed":  {ConnConfig{URL: "nats://%zz"}, "NATS setting URL"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), jstest.Timeout)
			defer cancel()
			_, err := Connect(ctx, tc.cfg, zerolog.Nop())
			require.NoError(t, ctx.Err(), "%v", err)
			switch want := tc.want.(type) {
			case string:
				require.ErrorContains(t, err, want)
			case *x509.UnknownAuthorityError:
				require.ErrorAs(t, err, want)
			case error:
				require.ErrorIs(t, err, want)
			}
		})
	}
}

func TestConnectRetriesUntilTheDeadline(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	late := errors.New("too late")
	attempts := hook(func(message string) {
		if message == "cannot reach NATS" {
			cancel(late)
		}
	})
	_, err := Connect(ctx, ConnConfig{URL: "nats://127.0.0.1:1"}, zerolog.New(os.Stderr).Level(zerolog.WarnLevel).Hook(attempts))
	require.ErrorIs(t, err, late)
	require.ErrorContains(t, err, "NATS setting URL")
}

// hook sees the log.
type hook func(message string)

func (h hook) Run(_ *zerolog.Event, _ zerolog.Level, message string) { h(message) }

func TestRestartOfTheServer(t *testing.T) {
	t.Parallel()
	opts := &server.Options{StoreDir: t.TempDir()}
	srv := jstest.Server(t, opts)
	cfg := testConfig(t)
	cfg.Conn.URL = srv.ClientURL()
	q := startQueue(t, cfg, scorerFunc(good))
	require.NoError(t, q.Ready(t.Context()))
	publish(t, q, "x", "1", item("text"))
	awaitEmpty(t, q)
	port := srv.Addr().(*net.TCPAddr).Port
	srv.Shutdown()
	srv.WaitForShutdown()
	require.Eventually(t, func() bool { return q.Ready(t.Context()) != nil }, jstest.Timeout, 5*time.Millisecond)
	require.ErrorIs(t, q.Ready(t.Context()), ErrNotReady)

	jstest.Server(t, &server.Options{StoreDir: opts.StoreDir, Port: port})
	require.Eventually(t, func() bool { return q.Ready(t.Context()) == nil }, jstest.Timeout, 5*time.Millisecond)
	publish(t, q, "x", "2", item("text"))
	awaitEmpty(t, q)
	require.Equal(t, 2, jstest.Count(q.js, StreamRewards))
	answer, err := NewClient(q.nc).Score(t.Context(), request("hello"))
	require.NoError(t, err)
	require.Len(t, answer.Results, 1)
}
