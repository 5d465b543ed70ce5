package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"assay/lab/load"
)

// metricsInterval is how often the console's page Live reads the metrics.
const metricsInterval = 5 * time.Second

// errMeasured ends the clients of a round.
var errMeasured = errors.New("the round has ended")

// withConsoles measures while clients read what the console's page Live reads: the stream of scored responses, and the
// metrics. What a browser does with it is not part of the cost of the service.
func (c *servingCmd) withConsoles(ctx context.Context, measure func() (load.Result, error)) (r load.Result, err error) {
	group, ctx := errgroup.WithContext(ctx)
	for range c.Consoles {
		stream, err := read(ctx, c.URL+"/v1/scored", "text/event-stream")
		if err != nil {
			return r, err
		}
		group.Go(func() error {
			_, err := io.Copy(io.Discard, stream)
			return fmt.Errorf("--consoles: the stream of scored responses ended before the round: %w", errors.Join(err, stream.Close(), io.ErrUnexpectedEOF))
		})
		group.Go(func() error { return c.readMetrics(ctx) })
	}
	group.Go(func() error {
		if r, err = measure(); err != nil {
			return err
		}
		return errMeasured
	})
	if err := group.Wait(); !errors.Is(err, errMeasured) {
		return r, err
	}
	return r, nil
}

// readMetrics reads the metrics until ctx ends.
func (c *servingCmd) readMetrics(ctx context.Context) error {
	for ctx.Err() == nil {
		metrics, err := read(ctx, c.URL+"/metrics", "text/plain")
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, metrics)
		if err = errors.Join(err, metrics.Close()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(metricsInterval):
		}
	}
	return nil
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
