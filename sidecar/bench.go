package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"assay/rewardmodel"
	"assay/sidecar/cli"
)

// benchCmd groups the benchmarks.
type benchCmd struct {
	Serving    benchServingCmd    `cmd:"" help:"Load a running service and print what it answers a second."`
	Fleet      benchFleetCmd      `cmd:"" help:"Tell how many replicas a training needs: measure one, its NATS, and simulate many."`
	Peers      benchPeersCmd      `cmd:"" help:"Compare the speed of this service with that of other reward servers."`
	Paper      benchPaperCmd      `cmd:"" help:"Repeat the experiments of the BFGPU paper."`
	PaperRun   benchPaperRunCmd   `cmd:"" hidden:""`
	Latency    benchLatencyCmd    `cmd:"" help:"Start this service and measure its start, what it adds to an idle forward pass, and its latency under load."`
	Soak       benchSoakCmd       `cmd:"" help:"Start this service, load it for minutes, and print what memory it holds."`
	Train      benchTrainCmd      `cmd:"" help:"Take the same training steps as PyTorch and print who is faster."`
	Candidates benchCandidatesCmd `cmd:"" help:"Compare the labels that the service asks for with those of random responses."`
}

// benchServingCmd posts the same responses in requests of several sizes and at several concurrencies.
type benchServingCmd struct {
	cli.InputFlags
	URL         string `name:"url" default:"http://127.0.0.1:8080" help:"The service."`
	Concurrency []int  `default:"1,8,64" help:"Requests in flight."`
	Size        []int  `default:"1,64,512" help:"Responses of a request."`
	Most        int    `default:"2000" help:"Responses of a row of the table; the input is taken from its beginning for each."`
	rateFlags
}

// Help is shown by --help.
func (*benchServingCmd) Help() string {
	return `Example:

    assay serve --cache-bytes 0 &
    assay bench serving --text responses.txt

Prints one row for each concurrency and size: responses/s, and the latency of a request at the 50th and 99th percentile.
Run the service without its cache, or each row after the first measures the cache. It sends no token: a service that
has tokens needs --trust-loopback.

    assay bench serving --text responses.txt --rate 50 --seconds 30 --size 1,1,8
    assay bench serving --text responses.txt --rate 50 --rounds 5 --beside="--init models/default --bags bags.jsonl"

With --rate, requests of the sizes in turn arrive at fixed times whether or not those before are answered, and latency
counts from when a request should have left. --beside trains in every other round as the service does, and prints the
ratio of the latencies with and without.`
}

// Run is called by kong.
func (c *benchServingCmd) Run(a *cli.App) error {
	if slices.Min(append(slices.Concat(c.Concurrency, c.Size), c.Most)) < 1 {
		return cli.Usage(errors.New("--concurrency, --size and --most take positive numbers"))
	}
	if err := c.rateFlags.validate(); err != nil {
		return cli.Usage(err)
	}
	items, err := c.items(a)
	if err != nil {
		return err
	}
	if c.Rate > 0 {
		return c.runRate(a, items)
	}
	table := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "concurrency\tsize\trequests\tresponses/s\tp50 ms\tp99 ms\tfailed\t")
	for _, size := range c.Size {
		bodies, err := requests(items, size)
		if err != nil {
			return err
		}
		for _, concurrency := range c.Concurrency {
			if concurrency > len(bodies) {
				continue // the row before has the same load
			}
			row, err := sendAll(a.Context, c.URL, bodies, concurrency, nil)
			if err != nil {
				return err
			}
			fmt.Fprintf(table, "%d\t%d\t%d\t%.0f\t%.1f\t%.1f\t%d\t\n", concurrency, size, len(bodies),
				float64(len(items))/row.total.Seconds(), row.percentile(50), row.percentile(99), row.failed)
		}
	}
	return table.Flush()
}

// items reads at most c.Most responses.
func (c *benchServingCmd) items(a *cli.App) ([]rewardmodel.Item, error) {
	in, err := c.Open(a)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var items []rewardmodel.Item
	for r, err := range cli.Records(a, c.InputFlags, in, c.Item) {
		if err != nil {
			return nil, err
		}
		if items = append(items, r.Value); len(items) == c.Most {
			break
		}
	}
	if len(items) == 0 {
		return nil, cli.Usage(errors.New("the input holds no response"))
	}
	return items, nil
}

// requests packs the items into request bodies of the given size.
func requests(items []rewardmodel.Item, size int) ([][]byte, error) {
	var bodies [][]byte
	for part := range slices.Chunk(items, size) {
		body, err := rewardmodel.Request{Responses: part}.AppendJSON(nil)
		if err != nil {
			return nil, err
		}
		bodies = append(bodies, body)
	}
	return bodies, nil
}

// load is what one row measured.
type load struct {
	total     time.Duration
	latencies []time.Duration // sorted
	late      []time.Duration // how much after its time each request left, sorted; nil where none had a time
	failed    int
}

func (l load) percentile(p int) float64 { return milliseconds(l.latencies, p) }

// milliseconds is a percentile of sorted times.
func milliseconds(sorted []time.Duration, p int) float64 {
	return float64(sorted[(len(sorted)-1)*p/100].Microseconds()) / 1000
}

// sendAll posts all bodies to a service with at most that many in flight, each at its time where there are times. A
// failed request counts as such; the row goes on.
func sendAll(ctx context.Context, service string, bodies [][]byte, concurrency int, times []time.Duration) (load, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: concurrency}}
	defer client.CloseIdleConnections()
	row := load{latencies: make([]time.Duration, len(bodies)), late: make([]time.Duration, len(times))}
	var next, failed atomic.Int64
	var last atomic.Pointer[error]
	var workers sync.WaitGroup
	began := time.Now()
	for range concurrency {
		workers.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(bodies); i = next.Add(1) - 1 {
				sent := time.Now()
				if times != nil { // late or not, it counts from when it should have left
					sent = began.Add(times[i])
					if sleepUntil(ctx, sent) != nil {
						return
					}
					row.late[i] = time.Since(sent)
				}
				if err := send(ctx, client, service+"/v1/score", bodies[i]); err != nil {
					failed.Add(1)
					last.Store(&err)
				}
				row.latencies[i] = time.Since(sent)
			}
		})
	}
	workers.Wait()
	row.total, row.failed = time.Since(began), int(failed.Load())
	slices.Sort(row.latencies)
	slices.Sort(row.late)
	if row.failed == len(bodies) {
		return load{}, fmt.Errorf("every request failed: %w", *last.Load())
	}
	return row, ctx.Err()
}

func send(ctx context.Context, client *http.Client, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %.200s", answer.Status, text)
	}
	return nil
}
