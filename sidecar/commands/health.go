package commands

import (
	"cmp"
	"fmt"
	"net"
	"time"

	client "assay/clients/go"
	"assay/sidecar/cli"
)

// Health is the probe for a container image without a shell or an HTTP client.
type Health struct {
	Live      bool          `help:"Check liveness (/livez) instead of readiness (/readyz)."`
	Listen    string        `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Listen address of the service, as its --listen (${default})."`
	OpsListen string        `placeholder:"HOST:PORT" help:"Operations address of the service, as its --ops-listen; takes precedence over --listen."`
	Timeout   time.Duration `default:"2s" help:"Timeout of the request."`
}

// Help is shown by --help.
func (*Health) Help() string {
	return `Example:

    assay health

Exits with 0 if the service on this machine is ready; otherwise exits with 1 and logs the reason. ASSAY_LISTEN and
ASSAY_OPS_LISTEN set the address, as they do for assay serve.`
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
	service, err := client.New("http://"+net.JoinHostPort(host, port), client.WithTimeout(c.Timeout), client.WithRetry(client.Retry{}))
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
