package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"assay/lab/bench"
	"assay/lab/flags"
	"assay/lab/load"
	"assay/lab/stats"
	"assay/rewardmodel"
	"assay/rewardmodel/encoder"
	"assay/rewardmodel/wire"
	"assay/sidecar/cli"
)

// soakCmd watches the resources of a service under load.
type soakCmd struct {
	Requests    int64         `default:"100000" help:"Minimum requests, of one response each (${default})."`
	Minutes     float64       `default:"10" help:"Minimum length (${default})."`
	Concurrency int           `default:"16" help:"Requests in flight (${default})."`
	Sentences   int           `default:"0" help:"Truncate the texts to 1 to that many sentences, alternating, so that there is time for more requests; 0: send whole texts."`
	Every       time.Duration `default:"1m" help:"Interval of the rows of the table (${default})."`
	Load        float64       `default:"0" help:"Share of the capacity, which is measured first, at which requests arrive at random times for --minutes; above 1: overload; 0: --concurrency are in flight."`
	CacheBytes  cli.ByteSize  `default:"64MiB" placeholder:"BYTES" help:"--cache-bytes of the service, which it fills (${default})."`
	flags.Service
}

// Help is shown by --help.
func (*soakCmd) Help() string {
	return `Example:

    assay-lab bench soak
    assay-lab bench soak --precision int8 --minutes 30 --concurrency 64
    assay-lab bench soak --sentences 5
    assay-lab bench soak --sentences 5 --load 0.7 --minutes 30
    assay-lab bench soak --sentences 5 --load 10 --minutes 5

Starts assay serve on free ports and sends it texts of 1 to 60 sentences, none of them twice, until both --requests and
--minutes are reached. Prints a row every minute: requests so far, anonymous memory (RssAnon) and the part of it that Go
holds, mapped files (RssFile), peak resident memory (VmHWM), goroutines, open files, CPU time since the start, requests
refused with 503, and other failures; at the end the memory above the weights, and the growth in the second half.

With --load, the capacity is the rate of 20 s with --concurrency in flight, before the load and after it. Requests arrive
at a share of it, whether or not earlier ones were answered. One in 16 of the clients that are refused waits as long as
Retry-After says and sends its request again, up to ten times; the others leave. At the end all clients leave, and one
sends requests until one is answered: the time to recover. The load generator runs on the same processors as the service,
so the tokens, the bytes of the requests that were answered, and the CPU time of both are compared with those at the
capacity. It needs Linux.`
}

// Run is called by kong.
func (c *soakCmd) Run(a *cli.App) (err error) {
	if min(c.Requests, int64(c.Concurrency)) < 1 || min(c.Minutes, c.Load) < 0 || c.Every <= 0 || c.Sentences < 0 {
		return cli.Usage(errors.New("--requests, --concurrency and --every take positive numbers, --minutes, --load and --sentences 0 or more"))
	}
	ctx, stop := a.UntilSignal()
	defer stop()
	weights, err := c.weights()
	if err != nil {
		return err
	}
	texts, err := c.Sample(ctx, math.MaxInt)
	if err != nil {
		return err
	}
	service, err := c.Start(ctx, "--cache-bytes", strconv.FormatInt(int64(c.CacheBytes), 10))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, service.Close()) }()
	rows, err := c.soak(ctx, a.Stdout, service, texts)
	if len(rows) > 0 {
		_, failed := io.WriteString(a.Stdout, soakSummary(rows, weights, c.Precision))
		err = errors.Join(err, failed)
	}
	return err
}

// weights is the size of the weights in the chosen precision.
func (c *soakCmd) weights() (int64, error) {
	opened, err := c.Config().Open()
	if err != nil {
		return 0, err
	}
	defer opened.Close()
	runtime, err := c.Compute().Runtime()
	if err != nil {
		return 0, cli.Usage(err)
	}
	defer runtime.Close()
	return runtime.Bytes(opened.Checkpoint, encoder.Precision(c.Precision))
}

// soakRow is the state of the service at a point in time.
type soakRow struct {
	after           time.Duration
	requests        int64
	refused, failed int64
	memory          bench.Memory
	golang          int64 // bytes of that memory that Go holds
	goroutines      int64
	files           int64 // open file descriptors
	cpu             time.Duration
	loaded          bool // under the load of --load, not while the capacity is measured
}

const soakHeading = " minute    requests  anonymous MB    Go MB  file MB  peak MB  goroutines   files     CPU s  refused  failed\n"

func (r soakRow) String() string {
	return fmt.Sprintf("%7.1f  %10d  %12.1f  %7.1f  %7.1f  %7.1f  %10d  %6d  %8.1f  %7d  %6d\n", r.after.Minutes(), r.requests,
		megabytes(r.memory.Anonymous), megabytes(r.golang), megabytes(r.memory.File), megabytes(r.memory.Peak),
		r.goroutines, r.files, r.cpu.Seconds(), r.refused, r.failed)
}

func megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }

// soakSummary compares the memory at the end of the load with the weights, and with the memory half-way through the load. The
// capacity is measured with more requests in flight, which take more memory.
func soakSummary(rows []soakRow, weights int64, precision string) string {
	load := rows
	if slices.ContainsFunc(rows, func(r soakRow) bool { return r.loaded }) {
		load = slices.DeleteFunc(slices.Clone(rows), func(r soakRow) bool { return !r.loaded })
	}
	last, middle := load[len(load)-1], load[len(load)/2]
	peak := last
	for _, r := range rows {
		if r.memory.Anonymous > peak.memory.Anonymous {
			peak = r
		}
	}
	growth := megabytes(last.memory.Anonymous - middle.memory.Anonymous)
	return fmt.Sprintf("Weights (%s): %.1f MB. Anonymous memory: %.1f MB above them at the end of the load, %.1f MB at most; %+.1f MB from minute %.1f to %.1f (%+.1f MB/h), %+d goroutines, %+d files.\n",
		precision, megabytes(weights), megabytes(last.memory.Anonymous-weights), megabytes(peak.memory.Anonymous-weights),
		growth, middle.after.Minutes(), last.after.Minutes(), growth/max(last.after-middle.after, time.Second).Hours(),
		last.goroutines-middle.goroutines, last.files-middle.files)
}

// soak loads the service and writes the rows as they come. It returns the rows so far even where it fails.
func (c *soakCmd) soak(ctx context.Context, out io.Writer, service *bench.Service, texts []string) ([]soakRow, error) {
	var rows []soakRow
	s := &soakLoad{cmd: c, service: service, url: service.URL, texts: texts, began: time.Now()}
	row := func() error {
		r, err := s.row(context.WithoutCancel(ctx), service) // the last row comes after the end
		if err == nil {
			rows = append(rows, r)
			_, err = io.WriteString(out, r.String())
		}
		return err
	}
	if _, err := io.WriteString(out, soakHeading); err != nil {
		return nil, err
	}
	if err := row(); err != nil {
		return rows, err
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sent := make(chan error, 1)
	sending.Go(func() { sent <- s.send(ctx, out) })
	tick := time.NewTicker(c.Every)
	defer tick.Stop()
	for {
		var err error
		select {
		case err := <-sent:
			return rows, errors.Join(err, row())
		case <-service.Done():
			err = service.Err()
		case <-tick.C:
			err = row()
		}
		if err != nil {
			return rows, err
		}
	}
}

// soakLoad is the load of a soak test, with counters that rows read while it runs.
type soakLoad struct {
	cmd     *soakCmd
	service *bench.Service
	url     string
	texts   []string
	began   time.Time

	answered, refused, failed atomic.Int64 // requests
	bytes                     atomic.Int64 // of the requests that were answered
	next                      atomic.Int64 // number of the next text
	loaded                    atomic.Bool  // requests arrive at the rate of --load

	mu      sync.Mutex
	retries [soakRetries + 1]int // clients that were answered after so many waits; 0: never
	longest time.Duration        // Retry-After
}

// Clients that are refused: how many of them wait, how often, and how many can be in flight or waiting.
const (
	soakWaiting = 16 // one in so many
	soakRetries = 10
	soakClients = 16384
)

// soakCapacity is the maximum time for which the capacity is measured, after as long a warm-up.
const soakCapacity = 20 * time.Second

// The metrics of the memory that Go has obtained from the system, and has returned to it.
const (
	metricGoSystem   = "go_memstats_sys_bytes"
	metricGoReleased = "go_memstats_heap_released_bytes"
)

// row is the state of the service now.
func (s *soakLoad) row(ctx context.Context, service *bench.Service) (r soakRow, err error) {
	r = soakRow{after: time.Since(s.began), requests: s.answered.Load(), refused: s.refused.Load(), failed: s.failed.Load(), loaded: s.loaded.Load()}
	if r.memory, err = service.Memory(); err != nil {
		return r, err
	}
	if r.cpu, err = service.CPU(); err != nil {
		return r, err
	}
	sums, err := bench.MetricSums(ctx, s.url, metricGoSystem, metricGoReleased, bench.MetricGoroutines, bench.MetricFiles)
	r.goroutines, r.files = int64(sums[bench.MetricGoroutines]), int64(sums[bench.MetricFiles])
	r.golang = int64(sums[metricGoSystem] - sums[metricGoReleased])
	return r, err
}

// soakUsage is what was done until a point in time, and the CPU time that it took.
type soakUsage struct {
	at                 time.Time
	answered, bytes    int64   // requests
	tokens             float64 // that the model has computed
	service, generator time.Duration
}

func (s *soakLoad) usage(ctx context.Context) (u soakUsage, err error) {
	u = soakUsage{at: time.Now(), answered: s.answered.Load(), bytes: s.bytes.Load()}
	if u.service, err = s.service.CPU(); err != nil {
		return u, err
	}
	if u.generator, err = bench.OwnCPU(); err != nil {
		return u, err
	}
	sums, err := bench.MetricSums(ctx, s.url, bench.MetricTokens)
	u.tokens = sums[bench.MetricTokens]
	return u, err
}

// soakRates are the rates between two points in time.
type soakRates struct {
	answered, bytes, tokens float64 // per second
	service, generator      float64 // cores
}

func (u soakUsage) since(before soakUsage) soakRates {
	took := u.at.Sub(before.at).Seconds()
	return soakRates{
		answered: float64(u.answered-before.answered) / took, bytes: float64(u.bytes-before.bytes) / took, tokens: (u.tokens - before.tokens) / took,
		service: (u.service - before.service).Seconds() / took, generator: (u.generator - before.generator).Seconds() / took,
	}
}

// compared describes the rates of an overload next to the capacity, which is measured before and after it, since other work on
// the machine changes it.
func (r soakRates) compared(before, after soakRates) string {
	capacity := soakRates{
		answered: (before.answered + after.answered) / 2, bytes: (before.bytes + after.bytes) / 2, tokens: (before.tokens + after.tokens) / 2,
		service: (before.service + after.service) / 2, generator: (before.generator + after.generator) / 2,
	}
	percent := func(of, part float64) float64 { return 100 * part / of }
	var out strings.Builder
	fmt.Fprintf(&out, "%-26s  %8s  %8s  %8s  %9s\n", "", "before", "load", "after", "load/mean")
	for _, row := range []struct {
		name   string
		digits int
		of     func(soakRates) float64
	}{
		{"answered requests/s", 1, func(r soakRates) float64 { return r.answered }},
		{"answered KB/s", 1, func(r soakRates) float64 { return r.bytes / 1e3 }},
		{"computed tokens/s", 0, func(r soakRates) float64 { return r.tokens }},
		{"cores of the service", 2, func(r soakRates) float64 { return r.service }},
		{"cores of the generator", 2, func(r soakRates) float64 { return r.generator }},
		{"tokens/s per core", 0, func(r soakRates) float64 { return r.tokens / r.service }},
	} {
		fmt.Fprintf(&out, "%-26s  %8.*f  %8.*f  %8.*f  %7.0f %%\n", row.name, row.digits, row.of(before), row.digits, row.of(r), row.digits, row.of(after),
			percent(row.of(capacity), row.of(r)))
	}
	return out.String()
}

// send sends requests until there are enough and the time is over. It fails where every request fails.
func (s *soakLoad) send(ctx context.Context, out io.Writer) error {
	length := time.Duration(s.cmd.Minutes * float64(time.Minute))
	if s.cmd.Load > 0 {
		return s.sendAtRate(ctx, out, length)
	}
	r, err := s.closed(ctx, func(i int, elapsed time.Duration) bool {
		return int64(i) < s.cmd.Requests || elapsed < length
	})
	return errors.Join(err, r.Err())
}

// closed sends requests with --concurrency in flight.
func (s *soakLoad) closed(ctx context.Context, more func(int, time.Duration) bool) (load.Result, error) {
	to := load.NewHTTP(s.url+bench.ScorePath, s.cmd.Concurrency)
	defer to.Close()
	return load.Run(ctx, load.Schedule{Concurrency: s.cmd.Concurrency, More: more}, func(ctx context.Context, _ int) ([]byte, error) {
		return s.request(ctx, to)
	}, nil)
}

// request sends a request with a text that no earlier one has.
func (s *soakLoad) request(ctx context.Context, to load.HTTP) ([]byte, error) {
	body, err := s.body(ctx, int(s.next.Add(1)-1))
	if err != nil {
		return nil, err
	}
	return s.post(ctx, to, body)
}

// post sends a request and counts its outcome.
func (s *soakLoad) post(ctx context.Context, to load.HTTP, body []byte) ([]byte, error) {
	reply, err := to.Send(ctx, body)
	switch _, refused := retryAfter(err); {
	case err == nil:
		s.answered.Add(1)
		s.bytes.Add(int64(len(body)))
	case ctx.Err() != nil:
	case refused:
		s.refused.Add(1)
	default:
		s.failed.Add(1)
	}
	return reply, err
}

// retryAfter returns how long a service that is overloaded asks to wait.
func retryAfter(err error) (time.Duration, bool) {
	var status *load.StatusError
	if errors.As(err, &status) && status.Code == http.StatusServiceUnavailable {
		return status.RetryAfter, true
	}
	return 0, false
}

// sendAtRate measures the capacity, sends requests at a share of it, measures the time to recover, and the capacity again.
func (s *soakLoad) sendAtRate(ctx context.Context, out io.Writer, length time.Duration) error {
	measuring := min(length, soakCapacity)
	if _, err := s.capacity(ctx, measuring); err != nil { // the warm-up
		return err
	}
	before, err := s.capacity(ctx, measuring)
	if err != nil {
		return err
	}
	rate := s.cmd.Load * before.answered
	refused := s.refused.Load()
	s.loaded.Store(true)
	r, loaded, err := s.overload(ctx, rate, length)
	s.loaded.Store(false)
	if err != nil {
		return err
	}
	refused = s.refused.Load() - refused
	recovered, latency, err := s.recover(ctx)
	if err != nil {
		return err
	}
	after, err := s.capacity(ctx, measuring)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err = fmt.Fprintf(out, "Capacity %.1f requests/s, and %.1f after the load. Offered %.1f (%g times); answered %.1f; refused %.1f. Latency p50 %.2f, p99 %.2f s; p99 late %.0f ms.\n"+
		"Refused clients that waited, by the number of waits until they were answered: %v, never %d; Retry-After up to %v.\n"+
		"After the load, a request was answered within %.2f s, in %.3f s.\n%s",
		before.answered, after.answered, rate, s.cmd.Load, loaded.answered, float64(refused)/r.Elapsed.Seconds(),
		r.Percentile(50).Seconds(), r.Percentile(99).Seconds(), stats.Milliseconds(stats.Percentile(r.Delays, 99)),
		s.retries[1:], s.retries[0], s.longest, recovered.Seconds(), latency.Seconds(), loaded.compared(before, after))
	return err
}

// capacity keeps --concurrency requests in flight, and returns the rates.
func (s *soakLoad) capacity(ctx context.Context, length time.Duration) (soakRates, error) {
	idle, err := s.usage(ctx)
	if err != nil {
		return soakRates{}, err
	}
	r, err := s.closed(ctx, func(_ int, elapsed time.Duration) bool { return elapsed < length })
	if err := errors.Join(err, r.Err()); err != nil {
		return soakRates{}, err
	}
	full, err := s.usage(ctx)
	return full.since(idle), err
}

// overload sends requests at a rate and does not wait for those that are in flight at the end.
func (s *soakLoad) overload(ctx context.Context, rate float64, length time.Duration) (load.Result, soakRates, error) {
	n := max(1, int(rate*length.Seconds()))
	to := load.NewHTTP(s.url+bench.ScorePath, soakClients)
	defer to.Close()
	idle, err := s.usage(ctx)
	if err != nil {
		return load.Result{}, soakRates{}, err
	}
	loading, leave := context.WithTimeout(ctx, length)
	defer leave()
	r, err := load.Run(loading, load.Schedule{Concurrency: soakClients, More: load.First(n), Due: load.Poisson(rand.New(rand.NewPCG(1, 0)), n, rate)},
		func(ctx context.Context, i int) ([]byte, error) {
			body, err := s.body(ctx, int(s.next.Add(1)-1))
			if err != nil {
				return nil, err
			}
			reply, err := s.post(ctx, to, body)
			if wait, overloaded := retryAfter(err); overloaded && i%soakWaiting == 0 {
				return s.retry(ctx, to, body, wait)
			}
			return reply, err
		}, nil)
	if err != nil && ctx.Err() != nil {
		return r, soakRates{}, err
	}
	over, err := s.usage(ctx)
	return r, over.since(idle), err
}

// retry is a client that waits as long as the service asks.
func (s *soakLoad) retry(ctx context.Context, to load.HTTP, body []byte, wait time.Duration) (reply []byte, err error) {
	count := func(waits int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.retries[waits]++
	}
	for waits := 1; waits <= soakRetries; waits++ {
		s.mu.Lock()
		s.longest = max(s.longest, wait)
		s.mu.Unlock()
		if err := load.WaitUntil(ctx, time.Now().Add(wait)); err != nil {
			return nil, err
		}
		if reply, err = s.post(ctx, to, body); err == nil {
			count(waits)
			return reply, nil
		}
		var overloaded bool
		if wait, overloaded = retryAfter(err); !overloaded {
			return nil, err
		}
	}
	count(0)
	return nil, err
}

// recover sends requests, one at a time, until one is answered. It returns how long that took, and the latency of it.
func (s *soakLoad) recover(ctx context.Context) (after, latency time.Duration, err error) {
	to := load.NewHTTP(s.url+bench.ScorePath, 1)
	defer to.Close()
	for began := time.Now(); ; {
		sent := time.Now()
		_, err := s.request(ctx, to)
		if _, refused := retryAfter(err); !refused {
			return time.Since(began), time.Since(sent), err
		}
	}
}

// body is request i, which no earlier request repeats.
func (s *soakLoad) body(ctx context.Context, i int) ([]byte, error) {
	limit := 0
	if s.cmd.Sentences > 0 {
		limit = 1 + i%s.cmd.Sentences
	}
	text, err := bench.Unseen(ctx, s.texts[i%len(s.texts)], i/len(s.texts), limit)
	if err != nil {
		return nil, err
	}
	return wire.AppendRequest(nil, rewardmodel.Request{Responses: []rewardmodel.Item{{Response: &text}}})
}
