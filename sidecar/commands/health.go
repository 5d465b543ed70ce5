package commands

import (
	"cmp"
	"fmt"
	"net"
	"time"

	client "assay/clients/go"
	"assay/sidecar/cli"
)

// Health is the probe of an image that has no other program to ask with.
type Health struct {
	Live      bool          `help:"Ask whether the process answers (/livez), not whether it can score (/readyz)."`
	Listen    string        `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Where the service listens, its own --listen (${default})."`
	OpsListen string        `placeholder:"HOST:PORT" help:"Its --ops-listen, which is asked instead where it is given."`
	Timeout   time.Duration `default:"2s" help:"Longest wait for the answer."`
}

// Help is shown by --help.
func (*Health) Help() string {
	return `Example:

    assay health

Exits with 0 when the service on this machine is ready, else with 1 and the reason. ASSAY_LISTEN and ASSAY_OPS_LISTEN
name its address here as they do for serve.`
}

// Run is called by kong.
func (c *Health) Run(a *cli.App) error {
	address := cmp.Or(c.OpsListen, c.Listen)
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return cli.Usage(fmt.Errorf("%s is no address; give HOST:PORT: %w", address, err))
	}
	// Whoever listens on every address is reached on the loopback one.
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
