// Package servertls is the TLS of a listener: its certificate, and the certificate
// authorities of its clients, in files that may change while it runs.
package servertls

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"assay/internal/filewatch"
)

// Files are PEM files.
type Files struct {
	Cert     string // certificate of the server and its intermediates
	Key      string // its private key
	ClientCA string // certificates that sign those of clients; "": clients have none
}

// Enabled reports whether the files ask for TLS.
func (f Files) Enabled() bool { return f != Files{} }

// Check returns an error if a file is missing that another one needs.
func (f Files) Check() error {
	switch {
	case f.Enabled() && f.Cert == "":
		return errors.New("--tls-cert is missing; give the PEM file of the certificate")
	case f.Enabled() && f.Key == "":
		return errors.New("--tls-key is missing; give the PEM file of the private key of --tls-cert")
	}
	return nil
}

// Identity is the certificate of a server. It is safe for concurrent use.
type Identity struct {
	watched []*watched
	log     zerolog.Logger
	now     atomic.Pointer[state]
}

// watched is a file and its content.
type watched struct {
	file    *filewatch.File
	content []byte
}

// state is what the files contained when they were last valid together.
type state struct {
	certificate tls.Certificate
	clientCA    *x509.CertPool // nil: clients have no certificates
}

// Load reads the files.
func Load(files Files, log zerolog.Logger) (*Identity, error) {
	if err := files.Check(); err != nil {
		return nil, err
	}
	i := &Identity{log: log}
	for _, path := range []string{files.Cert, files.Key, files.ClientCA} {
		if path == "" {
			continue
		}
		w := &watched{file: filewatch.New(path)}
		var err error
		if w.content, err = w.file.Read(); err != nil {
			return nil, fmt.Errorf("TLS: %w", err)
		}
		i.watched = append(i.watched, w)
	}
	now, err := parse(i.watched)
	if err != nil {
		return nil, err
	}
	i.now.Store(now)
	return i, nil
}

// parse parses the certificate, its key and, if there is one, the file of certificate
// authorities.
func parse(files []*watched) (*state, error) {
	cert, key := files[0], files[1]
	pair, err := tls.X509KeyPair(cert.content, key.content)
	if err != nil {
		return nil, fmt.Errorf("TLS certificate %s and key %s: %w", cert.file.Path(), key.file.Path(), err)
	}
	s := &state{certificate: pair}
	if len(files) < 3 {
		return s, nil
	}
	s.clientCA = x509.NewCertPool()
	if !s.clientCA.AppendCertsFromPEM(files[2].content) {
		return nil, fmt.Errorf("TLS: %s has no certificate in PEM format; give the certificates that sign those of clients", files[2].file.Path())
	}
	return s, nil
}

// Expires is when the certificate becomes invalid.
func (i *Identity) Expires() time.Time { return i.now.Load().certificate.Leaf.NotAfter }

// Certificate returns the certificate that the server presents now.
func (i *Identity) Certificate() *x509.Certificate { return i.now.Load().certificate.Leaf }

// Config returns a configuration for a listener of the given protocols (ALPN), such as
// h2 and http/1.1. Each handshake uses the files as last read. Where there are
// certificate authorities of clients, clients says whether a client needs a
// certificate; one that it presents must be signed by one of them, else the handshake
// fails.
func (i *Identity) Config(clients tls.ClientAuthType, protocols ...string) *tls.Config {
	base := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols}
	base.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := i.now.Load()
		c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols, Certificates: []tls.Certificate{now.certificate}}
		if now.clientCA != nil {
			c.ClientAuth, c.ClientCAs = clients, now.clientCA
			// A resumed session would keep a client of a certificate authority that was removed.
			c.SessionTicketsDisabled = true
		}
		return c, nil
	}
	return base
}

// Watch applies changes of the files within about a second, until ctx ends. Files that
// cannot be read or do not belong together leave the certificate unchanged, and the
// log says why.
func (i *Identity) Watch(ctx context.Context) {
	tick := time.NewTicker(filewatch.Period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			i.check()
		}
	}
}

// check reads the files once.
func (i *Identity) check() {
	changed := false
	for _, w := range i.watched {
		w.file.Check(func(content []byte) { w.content, changed = content, true }, func(err error) {
			i.log.Error().Err(err).Msg("a TLS file cannot be read; the certificate is unchanged")
		})
	}
	if !changed {
		return
	}
	next, err := parse(i.watched)
	if err != nil { // for example between the replacement of the certificate and that of its key
		i.log.Error().Err(err).Msg("the TLS files are invalid; the certificate is unchanged")
		return
	}
	i.now.Store(next)
	i.log.Info().Time("expires", i.Expires()).Msg("the TLS certificate changed")
}
