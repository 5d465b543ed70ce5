package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	client "assay/clients/go"
	"assay/internal/servertls"
)

// ServerTLSFlags are the TLS of the listeners of a command.
type ServerTLSFlags struct {
	TLSCert     string `name:"tls-cert" placeholder:"FILE" help:"Serve HTTPS, and gRPC over TLS: PEM file of the certificate and its intermediates; reloaded when it changes."`
	TLSKey      string `name:"tls-key" placeholder:"FILE" help:"PEM file of the private key of --tls-cert."`
	TLSClientCA string `name:"tls-client-ca" placeholder:"FILE" help:"PEM file of the CA certificates that sign client certificates. assay serve gives a client the scopes of the line of --token-file that names its certificate, and accepts clients without one; assay proxy requires a certificate of every client, except on --ops-listen."`
}

// Files are the files of the flags.
func (f ServerTLSFlags) Files() servertls.Files {
	return servertls.Files{Cert: f.TLSCert, Key: f.TLSKey, ClientCA: f.TLSClientCA}
}

// ClientTLSFlags are the TLS of a client of the service.
type ClientTLSFlags struct {
	CA   string `name:"ca" placeholder:"FILE" help:"PEM file of the CA certificates that verify an https service, in place of those of the system."`
	Cert string `placeholder:"FILE" help:"PEM file of a client certificate for the service."`
	Key  string `placeholder:"FILE" help:"PEM file of the private key of --cert."`
}

// Option is the setting of the client. Without flags it changes nothing.
func (f ClientTLSFlags) Option() (client.Option, error) {
	if f == (ClientTLSFlags{}) {
		return func(*client.Client) {}, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		content, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(content) {
			return nil, fmt.Errorf("--ca: %s has no certificate in PEM format", f.CA)
		}
	}
	if (f.Cert == "") != (f.Key == "") {
		return nil, errors.New("--cert and --key need each other; give both")
	}
	if f.Cert != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("--cert and --key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return client.WithTLS(config), nil
}
