package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"assay/rewardmodel"
	"assay/sidecar/childproc"
	"assay/sidecar/cli"
)

// rateFlags load a service as users do who do not wait for each other.
type rateFlags struct {
	Rate    float64 `default:"0" help:"Requests a second, at fixed times; 0: as many as --concurrency allows."`
	Seconds float64 `default:"30" help:"Length of a round, with --rate."`
	Rounds  int     `default:"1" help:"Rounds, with --rate."`
	Beside  string  `placeholder:"ARGS" help:"Train with these arguments of assay train in every other round, as a child process at the lowest priority."`
}

// rateConcurrency is how many requests may be in flight before those after them leave late. Their latency counts from
// when they should have left.
const rateConcurrency = 512

func (f rateFlags) validate() error {
	if f.Rate < 0 || f.Seconds <= 0 || f.Rounds < 1 {
		return errors.New("--rate takes 0 or more, --seconds and --rounds positive numbers")
	}
	if f.Beside != "" && f.Rate == 0 {
		return errors.New("--beside needs --rate")
	}
	return nil
}

// runRate prints a row for each round, and with --beside how much worse the rounds beside a training are.
func (c *benchServingCmd) runRate(a *cli.App, items []rewardmodel.Item) error {
	bodies, err := mixedRequests(items, c.Size, int(math.Ceil(c.Rate*c.Seconds)))
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "round\ttraining\trequests\tp50 ms\tp90 ms\tp99 ms\tlongest ms\tfailed\t")
	var alone, beside []load
	times := make([]time.Duration, len(bodies))
	for i := range times {
		times[i] = time.Duration(float64(i) / c.Rate * float64(time.Second))
	}
	atRate := func() (load, error) { return sendAll(a.Context, c.URL, bodies, rateConcurrency, times) }
	row := func(round int, training string, l load) {
		fmt.Fprintf(table, "%d\t%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%d\t\n", round, training, len(l.latencies),
			l.percentile(50), l.percentile(90), l.percentile(99), l.percentile(100), l.failed)
	}
	for round := range c.Rounds {
		l, err := atRate()
		if err != nil {
			return err
		}
		alone = append(alone, l)
		row(round+1, "no", l)
		if c.Beside == "" {
			continue
		}
		if l, err = c.besideTraining(a, atRate); err != nil {
			return err
		}
		beside = append(beside, l)
		row(round+1, "yes", l)
	}
	if err := table.Flush(); err != nil || c.Beside == "" {
		return err
	}
	_, err = fmt.Fprintf(a.Stdout, "Median ratio of the rounds: p50 %.2f, p90 %.2f, p99 %.2f\n",
		ratio(alone, beside, 50), ratio(alone, beside, 90), ratio(alone, beside, 99))
	return err
}

// mixedRequests makes n bodies whose sizes take turns.
func mixedRequests(items []rewardmodel.Item, sizes []int, n int) ([][]byte, error) {
	bodies, next := make([][]byte, n), 0
	for i := range bodies {
		size := min(sizes[i%len(sizes)], len(items))
		if next+size > len(items) {
			next = 0
		}
		body, err := rewardmodel.Request{Responses: items[next : next+size]}.AppendJSON(nil)
		if err != nil {
			return nil, err
		}
		bodies[i], next = body, next+size
	}
	return bodies, nil
}

// besideTraining measures from the first step of a training on, and stops that afterwards.
func (c *benchServingCmd) besideTraining(a *cli.App, measure func() (load, error)) (load, error) {
	dir, err := os.MkdirTemp("", "assay-bench-*")
	if err != nil {
		return load{}, err
	}
	defer os.RemoveAll(dir)
	child, err := childproc.New("", a.Log)
	if err != nil {
		return load{}, err
	}
	ctx, cancel := context.WithCancel(a.Context)
	args := slices.Concat([]string{"train", "--out", filepath.Join(dir, "out"), "--progress", "json"}, strings.Fields(c.Beside))
	begun, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		ended <- child.Run(ctx, args, childproc.Limits{}, func([]byte) {
			select {
			case begun <- struct{}{}:
			default:
			}
		})
	}()
	select {
	case <-begun:
	case err := <-ended:
		cancel()
		return load{}, besideFailed(err)
	}
	l, err := measure()
	cancel()
	if trained := <-ended; err == nil && !errors.Is(trained, context.Canceled) {
		err = besideFailed(trained)
	}
	return l, err
}

// besideFailed is for a training that ended by itself.
func besideFailed(err error) error {
	if err == nil {
		err = errors.New("the training was done before the round; give it more --epochs")
	}
	return fmt.Errorf("--beside: %w", err)
}

func sleepUntil(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ratio is the median of the rounds' ratios at a percentile.
func ratio(alone, beside []load, percentile int) float64 {
	ratios := make([]float64, len(alone))
	for i := range alone {
		ratios[i] = beside[i].percentile(percentile) / alone[i].percentile(percentile)
	}
	slices.Sort(ratios)
	return (ratios[(len(ratios)-1)/2] + ratios[len(ratios)/2]) / 2
}
