package commands

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	client "assay/clients/go"
	"assay/sidecar/cli"
)

// Health is the probe for a container image without a shell or an HTTP client.
type Health struct {
	Live      bool          `help:"Check liveness (/livez) instead of readiness (/readyz)."`
	Listen    string        `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Listen address of the service, as its --listen (${default})."`
	OpsListen string        `placeholder:"HOST:PORT" help:"Operations address of the service, as its --ops-listen; takes precedence over --listen."`
	TLSCert   string        `name:"tls-cert" placeholder:"FILE" help:"Certificate of the service, as its --tls-cert: use https, and accept only this certificate, whatever its names."`
	Timeout   time.Duration `default:"2s" help:"Timeout of the request."`
}

// Help is shown by --help.
func (*Health) Help() string {
	return `Example:

    assay health

Exits with 0 if the service on this machine is ready; otherwise exits with 1 and logs the reason. ASSAY_LISTEN,
ASSAY_OPS_LISTEN and ASSAY_TLS_CERT set the address and the certificate, as they do for assay serve.`
}

// Run is called by kong.
func (c *Health) Run(a *cli.App) error {
	address := cmp.Or(c.OpsListen, c.Listen)
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return cli.Usage(fmt.Errorf("invalid address %q; give HOST:PORT: %w", address, err))
	}
	// A service that listens on all interfaces is reachable on loopback.
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	path := "/readyz"
	if c.Live {
		path = "/livez"
	}
	ctx, stop := a.UntilSignal()
	defer stop()
	scheme, secure := "http://", &tls.Config{MinVersion: tls.VersionTLS12}
	if c.TLSCert != "" {
		scheme = "https://"
		if secure, err = pinned(c.TLSCert); err != nil {
			return cli.Usage(fmt.Errorf("--tls-cert: %w", err))
		}
	}
	service, err := client.New(scheme+net.JoinHostPort(host, port), client.WithTLS(secure), client.WithTimeout(c.Timeout), client.WithRetry(client.Retry{}))
	if err != nil {
		return cli.Usage(err)
	}
	defer service.Close()
	body, err := service.Call(ctx, client.Request{Path: path})
	if err != nil {
		return err
	}
	_, err = a.Stdout.Write(body)
	return err
}

// pinned accepts the certificate of a file only. Its names need not include the
// loopback address that the probe connects to.
func pinned(path string) (*tls.Config, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, rest := pem.Decode(content)
	for block != nil && block.Type != "CERTIFICATE" {
		block, rest = pem.Decode(rest)
	}
	if block == nil {
		return nil, fmt.Errorf("%s has no certificate in PEM format", path)
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // #nosec G402 -- VerifyConnection compares the whole certificate
		VerifyConnection: func(state tls.ConnectionState) error {
			if !bytes.Equal(state.PeerCertificates[0].Raw, block.Bytes) {
				return errors.New("the service presents another certificate than that of --tls-cert")
			}
			return nil
		},
	}, nil
}
