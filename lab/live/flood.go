package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"text/tabwriter"
	"time"

	"assay/lab/bench"
	"assay/lab/flags"
	"assay/lab/load"
	"assay/sidecar/cli"
)

// floodCmd opens many live sessions at once and keeps them open.
type floodCmd struct {
	Sessions int           `default:"10000" help:"Sessions that are opened, each over a connection of its own (${default})."`
	Honest   int           `default:"8" help:"Honest clients, which score and stream (${default})."`
	Baseline time.Duration `default:"10s" help:"Time before the flood in which only the honest clients use the service (${default})."`
	Hold     time.Duration `default:"20s" help:"Time for which the sessions stay open after the last one was tried (${default})."`
	Timeout  time.Duration `default:"1m" help:"Time after which a session that has had no response is silent (${default})."`
	flags.Service
}

// Help is shown by --help.
func (*floodCmd) Help() string {
	return `Example:

    assay-lab bench live flood
    assay-lab bench live flood --sessions 2000 --hold 5s

Starts assay serve on free ports, without its cache. Each honest client opens a live session, and every 200 ms scores a
text with /v1/score, compares the result with that before the flood, and feeds the same text to its session; at the end
the result of the session must be that of /v1/score for all of its text. Then --sessions clients open a live session over
HTTP/1.1, send half a sentence, and keep the connection open. Prints how many were opened, how many were refused and
with which Retry-After, how many failed in another way, and how many were silent: no response at all. Then the state of
the service and the latency of the honest requests before, during and after the flood. It fails if a session is silent or
an honest result is wrong. The load generator runs on the same processors as the service. It needs Linux, and a limit of
open files above --sessions.`
}

// Run is called by kong.
func (c *floodCmd) Run(a *cli.App) (err error) {
	if min(c.Sessions, c.Honest) < 1 || min(c.Baseline, c.Hold, c.Timeout) <= 0 {
		return cli.Usage(errors.New("--sessions, --honest, --baseline, --hold and --timeout must be positive"))
	}
	ctx, stop := a.UntilSignal()
	defer stop()
	texts, err := c.Sample(ctx, floodTexts)
	if err != nil {
		return err
	}
	for i := range texts {
		if texts[i], err = bench.Unseen(ctx, texts[i], 0, floodSentences); err != nil {
			return err
		}
	}
	service, err := c.Start(ctx, "--cache-bytes", "0")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, service.Close()) }()
	return c.measure(ctx, a.Stdout, service, texts)
}

// measure prints the results, and fails if one of them is wrong.
func (c *floodCmd) measure(ctx context.Context, out io.Writer, service *bench.Service, texts []string) error {
	honest, err := newHonestClients(ctx, service.URL, texts, c.Honest)
	if err != nil {
		return err
	}
	defer honest.close()
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "flood\tlive sessions\tgoroutines\tfiles\tanonymous MB\thonest requests\tright\tp50 ms\tp99 ms\t")
	row := func(name string, p phase) error {
		s, err := floodState(ctx, service)
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%.0f\t%.0f\t%.0f\t%.1f\t%d\t%d\t%.1f\t%.1f\t\n", name, s[metricLiveSessions], s[bench.MetricGoroutines], s[bench.MetricFiles], s[anonymous],
			p.sent(), p.right, p.percentile(50), p.percentile(99))
		return nil
	}
	if err := row("before", honest.during(ctx, func() error { return load.WaitUntil(ctx, time.Now().Add(c.Baseline)) })); err != nil {
		return err
	}
	var flood floodResult
	connections := make(chan io.Closer, c.Sessions)
	peak := honest.during(ctx, func() error {
		flood = c.flood(ctx, service.URL, connections)
		return load.WaitUntil(ctx, time.Now().Add(c.Hold))
	})
	if err := row("peak", peak); err != nil {
		return err
	}
	for connection := range connections {
		_ = connection.Close()
	}
	if err := c.quiet(ctx, service); err != nil {
		return err
	}
	after := honest.during(ctx, func() error { return load.WaitUntil(ctx, time.Now().Add(c.Baseline)) })
	if err := row("after", after); err != nil {
		return err
	}
	streamed := honest.finish(ctx)
	fmt.Fprintf(out, "%s%d of %d honest sessions have the result of /v1/score.\n", flood, streamed.right, streamed.right+len(streamed.wrong))
	return errors.Join(append([]error{table.Flush(), ctx.Err(), flood.err(), peak.err(), after.err()}, streamed.wrong...)...)
}

// metricLiveSessions is the number of open sessions, and anonymous the name of the memory among the metrics.
const (
	metricLiveSessions = "assay_live_sessions"
	anonymous          = "anonymous MB"
)

// floodState is the state of the service now.
func floodState(ctx context.Context, service *bench.Service) (map[string]float64, error) {
	state, err := bench.MetricSums(ctx, service.URL, metricLiveSessions, bench.MetricGoroutines, bench.MetricFiles)
	if err != nil {
		return nil, err
	}
	memory, err := service.Memory()
	state[anonymous] = float64(memory.Anonymous) / 1e6
	return state, err
}

// quiet waits until the service has noticed that the flood is over.
func (c *floodCmd) quiet(ctx context.Context, service *bench.Service) error {
	for start := time.Now(); time.Since(start) < c.Timeout; {
		state, err := bench.MetricSums(ctx, service.URL, metricLiveSessions)
		if err != nil {
			return err
		}
		if state[metricLiveSessions] <= float64(c.Honest) {
			return nil
		}
		if err := load.WaitUntil(ctx, time.Now().Add(100*time.Millisecond)); err != nil {
			return err
		}
	}
	return nil // the row says so
}

// errSilent is that of sessions without a response.
var errSilent = errors.New("sessions had no response")

// floodResult counts what happened to the sessions of the flood.
type floodResult struct {
	opened, refused, silent int
	longest                 time.Duration // Retry-After
	withoutRetry            int           // refused without Retry-After
	failed                  map[string]int
}

// add counts the outcome of a session.
func (r *floodResult) add(err error) {
	var status *load.StatusError
	switch {
	case err == nil:
		r.opened++
	case errors.As(err, &status) && status.Code == http.StatusServiceUnavailable:
		r.refused++
		r.longest = max(r.longest, status.RetryAfter)
		if status.RetryAfter == 0 {
			r.withoutRetry++
		}
	case errors.As(err, &status):
		r.failed[status.Status]++
	default:
		r.silent++
		r.failed[err.Error()]++
	}
}

func (r floodResult) err() error {
	if r.silent > 0 {
		return fmt.Errorf("%d %w", r.silent, errSilent)
	}
	return nil
}

func (r floodResult) String() string {
	s := fmt.Sprintf("%d sessions opened, %d refused with 503 (Retry-After up to %v; %d without), %d silent.\n", r.opened, r.refused, r.longest, r.withoutRetry, r.silent)
	for _, reason := range slices.Sorted(maps.Keys(r.failed)) {
		s += fmt.Sprintf("%d: %s\n", r.failed[reason], reason)
	}
	return s
}
