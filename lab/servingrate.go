package main

import (
	"errors"
	"fmt"
	"math"
	"text/tabwriter"

	"assay/lab/load"
	"assay/lab/stats"
	"assay/rewardmodel"
	"assay/rewardmodel/wire"
	"assay/sidecar/cli"
)

// rateFlags load a service in an open loop, as independent users do.
type rateFlags struct {
	Rate      float64 `default:"0" help:"Requests per second, at fixed times; 0: as many as --concurrency allows."`
	Seconds   float64 `default:"30" help:"Length of a round, with --rate (${default})."`
	Rounds    int     `default:"1" help:"Rounds, with --rate (${default})."`
	Alongside string  `placeholder:"ARGS" help:"Train with these arguments of assay train in every other round, as a child process at the lowest priority."`
}

// rateConcurrency is how many requests may be in flight in an open loop before later ones leave late. Their latency
// counts from when they are due.
const rateConcurrency = 512

func (f rateFlags) validate() error {
	if f.Rate < 0 || f.Seconds <= 0 || f.Rounds < 1 {
		return errors.New("--rate takes 0 or more, --seconds and --rounds positive numbers")
	}
	if f.Alongside != "" && f.Rate == 0 {
		return errors.New("--alongside needs --rate")
	}
	return nil
}

// runRate prints a row for each round, and with --alongside the ratio of the rounds with and without a training job.
func (c *servingCmd) runRate(a *cli.App, items []rewardmodel.Item) error {
	bodies, err := mixedRequests(items, c.Size, int(math.Ceil(c.Rate*c.Seconds)))
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "round\ttraining\trequests\tp50 ms\tp90 ms\tp99 ms\tlongest ms\tfailed\t")
	var without, with []load.Result
	schedule := load.Schedule{Concurrency: rateConcurrency, Due: load.Regular(len(bodies), c.Rate)}
	atRate := func() (load.Result, error) { return score(a.Context, c.URL, bodies, schedule) }
	row := func(round int, training string, r load.Result) {
		ms := func(p int) float64 { return stats.Milliseconds(r.Percentile(p)) }
		fmt.Fprintf(table, "%d\t%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%d\t\n", round, training, len(bodies), ms(50), ms(90), ms(99), ms(100), r.Failed)
	}
	for round := range c.Rounds {
		r, err := atRate()
		if err != nil {
			return err
		}
		without = append(without, r)
		row(round+1, "no", r)
		if c.Alongside == "" {
			continue
		}
		if r, err = c.alongsideTraining(a, atRate); err != nil {
			return err
		}
		with = append(with, r)
		row(round+1, "yes", r)
	}
	if err := table.Flush(); err != nil || c.Alongside == "" {
		return err
	}
	_, err = fmt.Fprintf(a.Stdout, "Median ratio of the rounds: p50 %.2f, p90 %.2f, p99 %.2f\n",
		medianRatio(with, without, 50), medianRatio(with, without, 90), medianRatio(with, without, 99))
	return err
}

// mixedRequests makes n bodies whose sizes alternate.
func mixedRequests(items []rewardmodel.Item, sizes []int, n int) ([][]byte, error) {
	bodies, next := make([][]byte, n), 0
	for i := range bodies {
		size := min(sizes[i%len(sizes)], len(items))
		if next+size > len(items) {
			next = 0
		}
		body, err := wire.AppendRequest(nil, rewardmodel.Request{Responses: items[next : next+size]})
		if err != nil {
			return nil, err
		}
		bodies[i], next = body, next+size
	}
	return bodies, nil
}

// medianRatio is the median over the rounds of the ratio of a percentile.
func medianRatio(with, without []load.Result, percentile int) float64 {
	ratios := make([]float64, len(with))
	for i := range with {
		ratios[i] = float64(with[i].Percentile(percentile)) / float64(without[i].Percentile(percentile))
	}
	return stats.Median(ratios)
}
