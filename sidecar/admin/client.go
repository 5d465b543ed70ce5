// Package admin has the commands that manage a running service over HTTP: feedback, models and training. They print the
// JSON responses of the service.
package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	client "assay/clients/go"
	"assay/sidecar/cli"
)

// clientFlags specify which running service a command talks to.
type clientFlags struct {
	URL     string `name:"url" default:"http://127.0.0.1:8080" help:"URL of the service."`
	Token   string `help:"Token of the service; default: that of a private service on this machine (serve --private)."`
	DataDir string `default:"${data_dir}" placeholder:"DIR" help:"Data directory of a private service on this machine, for its token (${default})."`
	cli.ClientTLSFlags
	Timeout time.Duration `default:"1m" help:"Timeout of each request."`
	Retries int           `default:"8" help:"Maximum retries when the service is unavailable; retries have no duplicate effects."`
}

// Backoff between attempts. Only --retries limits their number: the budget is large.
const (
	initialBackoff = time.Second
	maxBackoff     = 30 * time.Second
	retryBudget    = 24 * time.Hour
)

// client returns a client of the service. The caller closes it.
func (f clientFlags) client() (*client.Client, error) {
	retry := client.Retry{Budget: retryBudget, InitialBackoff: initialBackoff, MaxBackoff: maxBackoff, MaxAttempts: 1 + max(f.Retries, 0)}
	secure, err := f.ClientTLSFlags.Option()
	if err != nil {
		return nil, cli.Usage(err)
	}
	c, err := client.New(f.URL, secure, client.WithToken(f.Token), client.WithDataDir(f.DataDir), client.WithTimeout(f.Timeout), client.WithRetry(retry))
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--url: %w", err))
	}
	return c, nil
}

// call makes a request. A request that the service rejects is a usage error.
func call(ctx context.Context, c *client.Client, r client.Request) ([]byte, error) {
	body, err := c.Call(ctx, r)
	var rejected *client.APIError
	if errors.As(err, &rejected) && rejected.Status < http.StatusInternalServerError && rejected.Status != http.StatusTooManyRequests {
		return nil, cli.Usage(err)
	}
	return body, err
}

// show makes a request and prints the indented response. body is sent as JSON unless it is nil.
func (f clientFlags) show(a *cli.App, method, path string, body any) error {
	r := client.Request{Method: method, Path: path}
	if body != nil {
		var err error
		if r.Body, err = json.Marshal(body); err != nil {
			return err
		}
	}
	c, err := f.client()
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, stop := a.UntilSignal()
	defer stop()
	response, err := call(ctx, c, r)
	if err != nil {
		return err
	}
	pretty := jsontext.Value(response)
	if err := pretty.Indent(); err != nil {
		return fmt.Errorf("the response is not JSON: %w", err)
	}
	_, err = a.Stdout.Write(append(pretty, '\n'))
	return err
}
