package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"assay/lab/load"
)

// metricsInterval is how often the console's page Live reads the metrics.
const metricsInterval = 5 * time.Second

// withConsole measures while a client reads what the console's page Live reads: the stream of scored responses, and the
// metrics. What a browser does with it is not part of the cost of the service.
func (c *servingCmd) withConsole(ctx context.Context, measure func() (load.Result, error)) (load.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := read(ctx, c.URL+"/v1/scored", "text/event-stream")
	if err != nil {
		return load.Result{}, err
	}
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, stream)
		ended <- errors.Join(err, stream.Close())
	}()
	go func() {
		for ctx.Err() == nil {
			if metrics, err := read(ctx, c.URL+"/metrics", "text/plain"); err == nil {
				_, _ = io.Copy(io.Discard, metrics)
				_ = metrics.Close()
			}
			select {
			case <-ctx.Done():
			case <-time.After(metricsInterval):
			}
		}
	}()
	r, err := measure()
	select {
	case lost := <-ended:
		return r, errors.Join(err, fmt.Errorf("--console: the stream of scored responses ended before the round: %w", lost))
	default:
	}
	cancel()
	<-ended
	return r, err
}

// read requests a body, which the caller closes.
func read(ctx context.Context, url, accept string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s: %s", url, response.Status), response.Body.Close())
	}
	return response.Body, nil
}
