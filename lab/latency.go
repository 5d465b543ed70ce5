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

	"assay/lab/bench"
	"assay/lab/flags"
	"assay/lab/load"
	"assay/lab/stats"
	"assay/sidecar/cli"
)

// latencyCmd measures the time to start, the latency of an idle service, and the latency under load.
type latencyCmd struct {
	Starts      int           `default:"5" help:"Starts of the service; the last one serves the rest (${default})."`
	Rounds      int           `default:"5" help:"Rounds, each with an idle part and a part under load (${default})."`
	Idle        int           `default:"100" help:"Responses of one sentence per round, one at a time, each followed by the bare forward pass of its tokens (${default})."`
	Pause       time.Duration `default:"20ms" help:"Pause before each of them and each forward pass, so that they do not overlap (${default})."`
	Tokens      int           `default:"16" help:"Tokens of every sentence, special tokens included (${default})."`
	Sentences   int           `default:"8" help:"Sentences of every response under load (${default})."`
	Mixed       bool          `help:"Load with responses of different sizes instead, half of them one sentence and half whole texts of --work, and print the latency by size."`
	Concurrency int           `default:"64" help:"Requests in flight while the capacity is measured (${default})."`
	Load        float64       `default:"0.8" help:"Share of the capacity at which requests arrive (${default})."`
	Rate        float64       `default:"0" help:"Requests per second, instead of --load of the capacity, which is then not measured: two binaries are compared at the same rate."`
	Seconds     float64       `default:"30" help:"Length of the load of a round; measuring the capacity takes another third of it (${default})."`
	Arrivals    string        `default:"poisson" enum:"poisson,regular" help:"Arrival of requests: at random, as from many callers, or at fixed intervals (${enum})."`
	Seed        uint64        `default:"1" help:"Seed of the arrival times (${default})."`
	flags.Service
}

// Help is shown by --help.
func (*latencyCmd) Help() string {
	return `Example:

    assay-lab bench latency
    assay-lab bench latency --precision int8 --rounds 1 --starts 1 --seconds 10 --sentences 1

Starts assay serve on free ports, without its cache, and prints the time from the start of the process to the first 200
of /readyz (files come from the page cache except at the first start), then a row for each round:

  idle      median latency of a response of one sentence over a persistent connection, one at a time
  forward   median time of the model in this process, on the same tokens with the same precision and threads
  ratio     of the two
  capacity  responses/s of requests of one response, --concurrency of them in flight; 0 with --rate
  rate      --load of that, or --rate; requests arrive at this rate per second, as --arrivals specifies, in an open loop
  p50 ...   latency of these from when a request is due
  late      99th percentile of how much later it left: processor time that the load generator lacked

All responses are of equal cost: each sentence has --tokens tokens. With --mixed they are as different as the texts, and
a second table has their latency by the number of sentences, over all rounds. The last row is the median of the rounds. The load
generator runs on the same processors as the service and counts against it.`
}

// startRequests is how many requests, in multiples of --concurrency, warm up the service and estimate its speed.
const startRequests = 4

// sentencePool is the maximum number of sentences: more than can be in flight, so that none is scored once for two
// responses.
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

// latencyRow formats the cells of a round, or their medians, as a row of the table.
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
		out[i] = stats.Median(column)
	}
	return out
}

func (c *latencyCmd) validate() error {
	if min(c.Starts, c.Rounds, c.Idle, c.Tokens, c.Sentences, c.Concurrency) < 1 || c.Seconds <= 0 || c.Load <= 0 || c.Pause < 0 || c.Rate < 0 {
		return cli.Usage(errors.New("--starts, --rounds, --idle, --tokens, --sentences, --concurrency, --seconds and --load take positive numbers, --pause and --rate 0 or more"))
	}
	return nil
}

// Run is called by kong.
func (c *latencyCmd) Run(a *cli.App) (err error) {
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
	texts, err := c.Sample(ctx, math.MaxInt)
	if err != nil {
		return err
	}
	work, err := bench.NewUniform(ctx, texts, c.Tokens, sentencePool, bare.Tokenizer, bare.Checkpoint.MaxLength())
	if err != nil {
		return cli.Usage(fmt.Errorf("--tokens %d: %w", c.Tokens, err))
	}
	service, err := c.startAll(ctx, a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, service.Close()) }()
	source, bySize := func(n int) ([]bench.Response, error) { return work.Take(ctx, n, c.Sentences) }, sizes(nil)
	if c.Mixed {
		mixed, err := newMixedWork(ctx, texts, c.Seed, bare.Tokenizer, bare.Checkpoint.MaxLength())
		if err != nil {
			return err
		}
		source, bySize = mixed.take, newSizes()
	}
	rounds, err := c.measure(ctx, a, service, bare, work, source, bySize)
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
	if err := table.Flush(); err != nil {
		return err
	}
	return bySize.write(a.Stdout)
}

// startAll starts the service --starts times and leaves the last one running.
func (c *latencyCmd) startAll(ctx context.Context, a *cli.App) (service *bench.Service, err error) {
	starts := make([]float64, c.Starts)
	for i := range starts {
		if service != nil {
			if err := service.Close(); err != nil {
				return nil, err
			}
		}
		if service, err = c.Start(ctx, "--cache-bytes", "0"); err != nil {
			return nil, err
		}
		starts[i] = service.Start.Seconds()
		a.Log.Info().Int("start", i+1).Float64("seconds", starts[i]).Msg("ready")
	}
	_, err = fmt.Fprintf(a.Stdout, "/readyz: 200 after %.2f s (median of %d starts, %.2f to %.2f)\n",
		stats.Median(starts), len(starts), slices.Min(starts), slices.Max(starts))
	if err != nil {
		return nil, errors.Join(err, service.Close())
	}
	return service, nil
}

func (c *latencyCmd) measure(ctx context.Context, a *cli.App, service *bench.Service, bare *bareModel, work *bench.Uniform, source responseSource, bySize sizes) ([]latencyRound, error) {
	rounds := make([]latencyRound, c.Rounds)
	for i := range rounds {
		r := &rounds[i]
		if err := c.idle(ctx, r, service, bare, work); err != nil {
			return nil, err
		}
		if err := c.loaded(ctx, r, service, source, bySize, rand.New(rand.NewPCG(c.Seed, uint64(i)))); err != nil {
			return nil, err
		}
		a.Log.Info().Int("round", i+1).Float64("idle_ms", r.idle).Float64("forward_ms", r.forward).
			Float64("capacity", r.capacity).Float64("p50_ms", r.p50).Float64("p99_ms", r.p99).Msg("measured")
	}
	return rounds, nil
}

// loaded measures the capacity, and then the latency at a share of it.
func (c *latencyCmd) loaded(ctx context.Context, r *latencyRound, service *bench.Service, source responseSource, bySize sizes, random *rand.Rand) error {
	run := func(n int, s load.Schedule) (load.Result, []bench.Response, error) {
		responses, err := source(n)
		if err != nil {
			return load.Result{}, nil, cli.Usage(fmt.Errorf("--sentences %d: %w", c.Sentences, err))
		}
		bodies, err := bench.Requests(bench.Items(textsOf(responses)), 1)
		if err != nil {
			return load.Result{}, nil, err
		}
		l, err := bench.Score(ctx, service.URL, bodies, s)
		return l, responses, err
	}
	closed := load.Schedule{Concurrency: c.Concurrency}
	warm, _, err := run(startRequests*c.Concurrency, closed)
	if err != nil {
		return err
	}
	if r.rate = c.Rate; r.rate == 0 {
		full, _, err := run(max(startRequests*c.Concurrency, int(warm.Rate()*c.Seconds/3)), closed)
		if err != nil {
			return err
		}
		r.capacity, r.failed = full.Rate(), float64(full.Failed)
		r.rate = c.Load * r.capacity
	}
	n := max(1, int(r.rate*c.Seconds))
	due := load.Poisson(random, n, r.rate)
	if c.Arrivals == "regular" {
		due = load.Regular(n, r.rate)
	}
	l, responses, err := run(n, load.Schedule{Concurrency: rateConcurrency, Due: due})
	if err != nil {
		return err
	}
	bySize.add(responses, l)
	r.requests, r.failed = float64(n), r.failed+float64(warm.Failed+l.Failed)
	for p, to := range map[int]*float64{50: &r.p50, 90: &r.p90, 99: &r.p99} {
		*to = stats.Milliseconds(l.Percentile(p))
	}
	r.late = stats.Milliseconds(stats.Percentile(l.Delays, 99))
	return nil
}

func textsOf(responses []bench.Response) []string {
	texts := make([]string, len(responses))
	for i, r := range responses {
		texts[i] = r.Text
	}
	return texts
}
