package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"text/tabwriter"
	"time"

	"assay/bench"
	"assay/sidecar/cli"
	"assay/sidecar/fleetsim"
)

// benchLatencyCmd measures how long callers wait: for the start, idle, and under load.
type benchLatencyCmd struct {
	Starts      int           `default:"5" help:"Times that the service is started; the last one serves the rest."`
	Rounds      int           `default:"5" help:"Rounds, of an idle part and one under load."`
	Idle        int           `default:"100" help:"Responses of one sentence in a round, one at a time, each followed by the bare forward pass of its tokens."`
	Pause       time.Duration `default:"20ms" help:"Rest before each of them and each forward pass, so that nothing of the one before still runs."`
	Tokens      int           `default:"16" help:"Tokens of every sentence, special ones included."`
	Sentences   int           `default:"8" help:"Sentences of every response under load."`
	Concurrency int           `default:"64" help:"Requests in flight where the capacity is measured."`
	Load        float64       `default:"0.8" help:"Share of the capacity at which requests arrive."`
	Seconds     float64       `default:"30" help:"Length of the load of a round; a third of it goes to the capacity before."`
	Arrivals    string        `default:"poisson" enum:"poisson,regular" help:"When requests arrive: at random, as from many callers, or at fixed intervals (${enum})."`
	Seed        uint64        `default:"1" help:"Of the times of arrival."`
	selfFlags
}

// Help is shown by --help.
func (*benchLatencyCmd) Help() string {
	return `Example:

    assay bench latency
    assay bench latency --precision int8 --rounds 1 --starts 1 --seconds 10 --sentences 1

Starts assay serve on free ports, without its cache, and prints how long after the start of the process /readyz says
200 (files are read from the page cache but for the first time), then a row for each round:

  idle      median time of a response of one sentence over a connection that is kept, one at a time
  forward   median time of the model alone, in this process, on the same tokens with the same precision and threads
  ratio     of the two
  capacity  responses/s of requests of one response, --concurrency of them in flight
  rate      --load of that; so many requests arrive a second, at times as --arrivals says, whoever is still waiting
  p50 ...   latency of these from when a request should have left
  late      99th percentile of how much later it left: what the load itself lacked of the processor

Every response has a length of its own kind alone: each sentence is of --tokens tokens. The last row is the median of
the rounds. The load runs on the same processors as the service and counts against it.`
}

// startRequests are the requests, in multiples of --concurrency, that warm the service up and tell about how fast it is.
const startRequests = 4

// sentencePool is how many sentences are collected at most: more than can be in flight, so that none is scored once for
// two responses.
const sentencePool = 20000

// latencyRound is a row of the table.
type latencyRound struct {
	idle, forward  float64 // ms
	capacity, rate float64 // requests/s
	requests       float64
	p50, p90, p99  float64 // ms
	late           float64 // ms
	failed         float64
}

func (r latencyRound) cells() []float64 {
	return []float64{r.idle, r.forward, r.idle / r.forward, r.capacity, r.rate, r.requests, r.p50, r.p90, r.p99, r.p99 / r.p50, r.late, r.failed}
}

const (
	latencyHeading = "round\tidle ms\tforward ms\tratio\tcapacity/s\trate/s\trequests\tp50 ms\tp90 ms\tp99 ms\tp99/p50\tlate ms\tfailed\t"
	latencyFormat  = "%v\t%.2f\t%.2f\t%.2f\t%.1f\t%.1f\t%.0f\t%.1f\t%.1f\t%.1f\t%.2f\t%.1f\t%.0f\t\n"
)

// latencyRow is a row of the table for the cells of a round, or medians of them.
func latencyRow(name any, cells []float64) string {
	values := []any{name}
	for _, v := range cells {
		values = append(values, v)
	}
	return fmt.Sprintf(latencyFormat, values...)
}

// medianRow is the median of each column.
func medianRow(rounds []latencyRound) []float64 {
	var columns [][]float64
	for _, r := range rounds {
		for i, v := range r.cells() {
			if i == len(columns) {
				columns = append(columns, nil)
			}
			columns[i] = append(columns[i], v)
		}
	}
	out := make([]float64, len(columns))
	for i, column := range columns {
		out[i] = medianOf(column)
	}
	return out
}

// medianOf sorts the values.
func medianOf(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

func (c *benchLatencyCmd) validate() error {
	if min(c.Starts, c.Rounds, c.Idle, c.Tokens, c.Sentences, c.Concurrency) < 1 || c.Seconds <= 0 || c.Load <= 0 || c.Pause < 0 {
		return cli.Usage(errors.New("--starts, --rounds, --idle, --tokens, --sentences, --concurrency, --seconds and --load take positive numbers, --pause 0 or more"))
	}
	return nil
}

// Run is called by kong.
func (c *benchLatencyCmd) Run(a *cli.App) (err error) {
	if err := c.validate(); err != nil {
		return err
	}
	ctx, stop := a.UntilSignal()
	defer stop()
	bare, err := openBare(c.Flags)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.close()) }()
	texts, err := c.sample(ctx, math.MaxInt)
	if err != nil {
		return err
	}
	work, err := bench.NewUniform(ctx, texts, c.Tokens, sentencePool, bare.Tokenizer, bare.Checkpoint.MaxLength())
	if err != nil {
		return cli.Usage(fmt.Errorf("--tokens %d: %w", c.Tokens, err))
	}
	service, err := c.started(ctx, a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, service.Close()) }()
	rounds, err := c.measure(ctx, a, service, bare, work)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, latencyHeading)
	for i, r := range rounds {
		fmt.Fprint(table, latencyRow(i+1, r.cells()))
	}
	if len(rounds) > 1 {
		fmt.Fprint(table, latencyRow("median", medianRow(rounds)))
	}
	return table.Flush()
}

// started starts the service a few times and leaves the last one running.
func (c *benchLatencyCmd) started(ctx context.Context, a *cli.App) (service *bench.Service, err error) {
	starts := make([]float64, c.Starts)
	for i := range starts {
		if service != nil {
			if err := service.Close(); err != nil {
				return nil, err
			}
		}
		if service, err = c.start(ctx, "--cache-bytes", "0"); err != nil {
			return nil, err
		}
		starts[i] = service.Start.Seconds()
		a.Log.Info().Int("start", i+1).Float64("seconds", starts[i]).Msg("ready")
	}
	median := medianOf(starts) // and sorts
	_, err = fmt.Fprintf(a.Stdout, "/readyz: 200 after %.2f s (median of %d starts, %.2f to %.2f)\n", median, len(starts), starts[0], starts[len(starts)-1])
	if err != nil {
		return nil, errors.Join(err, service.Close())
	}
	return service, nil
}

func (c *benchLatencyCmd) measure(ctx context.Context, a *cli.App, service *bench.Service, bare *bareModel, work *bench.Uniform) ([]latencyRound, error) {
	rounds := make([]latencyRound, c.Rounds)
	for i := range rounds {
		r := &rounds[i]
		if err := c.idle(ctx, r, service, bare, work); err != nil {
			return nil, err
		}
		if err := c.loaded(ctx, r, service, work, rand.New(rand.NewPCG(c.Seed, uint64(i)))); err != nil {
			return nil, err
		}
		a.Log.Info().Int("round", i+1).Float64("idle_ms", r.idle).Float64("forward_ms", r.forward).
			Float64("capacity", r.capacity).Float64("p50_ms", r.p50).Float64("p99_ms", r.p99).Msg("measured")
	}
	return rounds, nil
}

// loaded measures the capacity and then, at a share of it, the latency.
func (c *benchLatencyCmd) loaded(ctx context.Context, r *latencyRound, service *bench.Service, work *bench.Uniform, random *rand.Rand) error {
	run := func(n, concurrency int, times []time.Duration) (load, error) {
		responses, err := work.Take(ctx, n, c.Sentences)
		if err != nil {
			return load{}, cli.Usage(fmt.Errorf("--sentences %d: %w", c.Sentences, err))
		}
		bodies, err := requests(items(textsOf(responses)), 1)
		if err != nil {
			return load{}, err
		}
		return sendAll(ctx, service.URL, bodies, concurrency, times)
	}
	about, err := run(startRequests*c.Concurrency, c.Concurrency, nil)
	if err != nil {
		return err
	}
	n := max(len(about.latencies), int(about.rate()*c.Seconds/3))
	full, err := run(n, c.Concurrency, nil)
	if err != nil {
		return err
	}
	r.capacity = full.rate()
	r.rate = c.Load * r.capacity
	n = max(1, int(r.rate*c.Seconds))
	times := fleetsim.Poisson(random, n, r.rate)
	if c.Arrivals == "regular" {
		for i := range times {
			times[i] = time.Duration(float64(i) / r.rate * float64(time.Second))
		}
	}
	l, err := run(n, rateConcurrency, times)
	if err != nil {
		return err
	}
	r.requests, r.failed = float64(n), float64(about.failed+full.failed+l.failed)
	r.p50, r.p90, r.p99, r.late = l.percentile(50), l.percentile(90), l.percentile(99), milliseconds(l.late, 99)
	return nil
}

// rate is requests a second.
func (l load) rate() float64 { return float64(len(l.latencies)) / l.total.Seconds() }

func textsOf(responses []bench.Response) []string {
	texts := make([]string, len(responses))
	for i, r := range responses {
		texts[i] = r.Text
	}
	return texts
}
