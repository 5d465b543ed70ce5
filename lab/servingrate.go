package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"text/tabwriter"

	"assay/lab/bench"
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
	Consoles  int     `default:"0" placeholder:"N" help:"Read what this number of consoles on the page Live read in every other round, and print the CPU time of the service, with --rate."`
}

// rateConcurrency is how many requests may be in flight in an open loop before later ones leave late. Their latency
// counts from when they are due.
const rateConcurrency = 512

func (f rateFlags) validate() error {
	if f.Rate < 0 || f.Seconds <= 0 || f.Rounds < 1 {
		return errors.New("--rate takes 0 or more, --seconds and --rounds positive numbers")
	}
	if (f.Alongside != "" || f.Consoles != 0) && f.Rate == 0 {
		return errors.New("--alongside and --consoles need --rate")
	}
	if f.Consoles < 0 || f.Alongside != "" && f.Consoles != 0 {
		return errors.New("--consoles takes 0 or more, and not together with --alongside")
	}
	return nil
}

// runRate prints a row for each round, and with --alongside or --consoles the ratio of the rounds with and without.
func (c *servingCmd) runRate(a *cli.App, items []rewardmodel.Item) error {
	bodies, err := mixedRequests(items, c.Size, int(math.Ceil(c.Rate*c.Seconds)))
	if err != nil {
		return err
	}
	schedule := load.Schedule{Concurrency: rateConcurrency, Due: load.Regular(len(bodies), c.Rate)}
	plain := func() (rateRound, error) { return c.measured(a.Context, bodies, schedule) }
	name, other := "training", plain
	switch {
	case c.Consoles > 0:
		name, other = "consoles", func() (r rateRound, err error) {
			_, err = c.withConsoles(a.Context, func() (load.Result, error) { r, err = plain(); return r.Result, err })
			return r, err
		}
	case c.Alongside != "":
		other = func() (r rateRound, err error) {
			_, err = c.alongsideTraining(a, func() (load.Result, error) { r, err = plain(); return r.Result, err })
			return r, err
		}
	}
	table := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "round\t%s\trequests\tp50 ms\tp90 ms\tp99 ms\tlongest ms\tfailed\t%s\n", name, c.ifConsoles("CPU ms\t"))
	row := func(round int, is string, r rateRound) {
		ms := func(p int) float64 { return stats.Milliseconds(r.Percentile(p)) }
		fmt.Fprintf(table, "%d\t%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%d\t%s\n", round, is, len(bodies), ms(50), ms(90), ms(99), ms(100), r.Failed,
			c.ifConsoles(fmt.Sprintf("%.3f\t", 1e3*r.cpu)))
	}
	var without, with []rateRound
	for round := range c.Rounds {
		r, err := plain()
		if err != nil {
			return err
		}
		without = append(without, r)
		row(round+1, "no", r)
		if c.Alongside == "" && c.Consoles == 0 {
			continue
		}
		if r, err = other(); err != nil {
			return err
		}
		with = append(with, r)
		row(round+1, "yes", r)
	}
	if err := table.Flush(); err != nil || len(with) == 0 {
		return err
	}
	percentile := func(p int) float64 {
		return medianRatio(with, without, func(r rateRound) float64 { return float64(r.Percentile(p)) })
	}
	_, err = fmt.Fprintf(a.Stdout, "Median ratio of the rounds: p50 %.2f, p90 %.2f, p99 %.2f%s\n", percentile(50), percentile(90), percentile(99),
		c.ifConsoles(fmt.Sprintf(", CPU time of a request %.3f", medianRatio(with, without, func(r rateRound) float64 { return r.cpu }))))
	return err
}

// rateRound is the result of a round.
type rateRound struct {
	load.Result
	cpu float64 // seconds of CPU time of the service for each request; with --consoles
}

// ifConsoles returns text with --consoles only.
func (f rateFlags) ifConsoles(text string) string {
	if f.Consoles > 0 {
		return text
	}
	return ""
}

// measured runs a round.
func (c *servingCmd) measured(ctx context.Context, bodies [][]byte, schedule load.Schedule) (r rateRound, err error) {
	if c.Consoles == 0 {
		r.Result, err = bench.Score(ctx, c.URL, bodies, schedule)
		return r, err
	}
	before, err := bench.MetricSums(ctx, c.URL, bench.MetricCPU)
	if err != nil {
		return r, err
	}
	if r.Result, err = bench.Score(ctx, c.URL, bodies, schedule); err != nil {
		return r, err
	}
	after, err := bench.MetricSums(ctx, c.URL, bench.MetricCPU)
	r.cpu = (after[bench.MetricCPU] - before[bench.MetricCPU]) / float64(len(bodies))
	return r, err
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

// medianRatio is the median over the rounds of the ratio of a value.
func medianRatio(with, without []rateRound, of func(rateRound) float64) float64 {
	ratios := make([]float64, len(with))
	for i := range with {
		ratios[i] = of(with[i]) / of(without[i])
	}
	return stats.Median(ratios)
}
