package main

import (
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"

	"assay/lab/bench"
	"assay/lab/flags"
	"assay/lab/load"
	"assay/lab/stats"
	"assay/rewardmodel"
	"assay/sidecar/cli"
)

// servingCmd posts the same responses in requests of several sizes and with several concurrencies.
type servingCmd struct {
	cli.InputFlags
	URL          string `name:"url" default:"http://127.0.0.1:8080" help:"The service (${default})."`
	Concurrency  []int  `default:"1,8,64" help:"Requests in flight (${default})."`
	Size         []int  `default:"1,64,512" help:"Responses per request (${default})."`
	MaxResponses int    `default:"2000" help:"Maximum responses of each row of the table, from the beginning of the input (${default})."`
	rateFlags
	flags.Assay
}

// Help is shown by --help.
func (*servingCmd) Help() string {
	return `Example:

    assay serve --cache-bytes 0 &
    assay-lab bench serving --text responses.txt

Prints one row for each concurrency and size: responses/s, and the latency of a request at the 50th and 99th percentile.
Run the service without its cache, or each row after the first measures the cache. It sends no token: a service that
has tokens needs --trust-loopback.

    assay-lab bench serving --text responses.txt --rate 50 --seconds 30 --size 1,1,8
    assay-lab bench serving --text responses.txt --rate 50 --rounds 5 --alongside="--init models/default --bags bags.jsonl"
    assay-lab bench serving --text responses.txt --rate 25 --size 8 --rounds 15 --consoles 20

With --rate, requests of alternating sizes arrive at fixed times whether or not earlier ones are answered, and latency
counts from when a request is due. --alongside trains in every other round as the service does, and prints the ratio of
the latencies with and without. --consoles does the same with clients that read what the console's page Live reads, and
also compares the CPU time of the service for each request. The cost of one is clearer from many.`
}

// Run is called by kong.
func (c *servingCmd) Run(a *cli.App) error {
	if slices.Min(append(slices.Concat(c.Concurrency, c.Size), c.MaxResponses)) < 1 {
		return cli.Usage(errors.New("--concurrency, --size and --max-responses take positive numbers"))
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
		bodies, err := bench.Requests(items, size)
		if err != nil {
			return err
		}
		for _, concurrency := range c.Concurrency {
			if concurrency > len(bodies) {
				continue // the row before has the same load
			}
			r, err := bench.Score(a.Context, c.URL, bodies, load.Schedule{Concurrency: concurrency})
			if err != nil {
				return err
			}
			fmt.Fprintf(table, "%d\t%d\t%d\t%.0f\t%.1f\t%.1f\t%d\t\n", concurrency, size, len(bodies),
				float64(len(items))/r.Elapsed.Seconds(), stats.Milliseconds(r.Percentile(50)), stats.Milliseconds(r.Percentile(99)), r.Failed)
		}
	}
	return table.Flush()
}

// items reads at most c.MaxResponses responses.
func (c *servingCmd) items(a *cli.App) ([]rewardmodel.Item, error) {
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
		if items = append(items, r.Value); len(items) == c.MaxResponses {
			break
		}
	}
	if len(items) == 0 {
		return nil, cli.Usage(errors.New("the input has no response"))
	}
	return items, nil
}
