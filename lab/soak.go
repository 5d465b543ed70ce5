package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"assay/lab/bench"
	"assay/lab/load"
	"assay/rewardmodel"
	"assay/rewardmodel/encoder"
	"assay/rewardmodel/wire"
	"assay/segmenter"
	"assay/sidecar/cli"
)

// soakCmd watches the memory of a service under load.
type soakCmd struct {
	Requests    int64         `default:"100000" help:"Minimum requests, of one response each (${default})."`
	Minutes     float64       `default:"10" help:"Minimum length (${default})."`
	Concurrency int           `default:"16" help:"Requests in flight (${default})."`
	Sentences   int           `default:"0" help:"Truncate the texts to 1 to that many sentences, alternating, so that there is time for more requests; 0: send whole texts."`
	Every       time.Duration `default:"1m" help:"Interval of the rows of the table (${default})."`
	CacheBytes  cli.ByteSize  `default:"64MiB" placeholder:"BYTES" help:"--cache-bytes of the service, which it fills (${default})."`
	serviceFlags
}

// Help is shown by --help.
func (*soakCmd) Help() string {
	return `Example:

    assay-lab bench soak
    assay-lab bench soak --precision int8 --minutes 30 --concurrency 64
    assay-lab bench soak --sentences 5

Starts assay serve on free ports and sends it texts of 1 to 60 sentences, none of them twice, until both --requests and
--minutes are reached. Prints a row every minute: requests so far, anonymous memory (RssAnon) and the part of it that Go
holds, mapped files (RssFile), peak resident memory (VmHWM), CPU time since the start, and failed requests; at the end
the memory above the weights, and the growth in the second half. It needs Linux.`
}

// Run is called by kong.
func (c *soakCmd) Run(a *cli.App) (err error) {
	if min(c.Requests, int64(c.Concurrency)) < 1 || c.Minutes < 0 || c.Every <= 0 || c.Sentences < 0 {
		return cli.Usage(errors.New("--requests, --concurrency and --every take positive numbers, --minutes and --sentences 0 or more"))
	}
	ctx, stop := a.UntilSignal()
	defer stop()
	weights, err := c.weights()
	if err != nil {
		return err
	}
	texts, err := c.sample(ctx, math.MaxInt)
	if err != nil {
		return err
	}
	service, err := c.start(ctx, "--cache-bytes", strconv.FormatInt(int64(c.CacheBytes), 10))
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
	after            time.Duration
	requests, failed int64
	memory           bench.Memory
	golang           int64 // bytes of that memory that Go holds
	cpu              time.Duration
}

const soakHeading = " minute    requests  anonymous MB    Go MB  file MB  peak MB     CPU s  failed\n"

func (r soakRow) String() string {
	return fmt.Sprintf("%7.1f  %10d  %12.1f  %7.1f  %7.1f  %7.1f  %8.1f  %6d\n", r.after.Minutes(), r.requests,
		megabytes(r.memory.Anonymous), megabytes(r.golang), megabytes(r.memory.File), megabytes(r.memory.Peak), r.cpu.Seconds(), r.failed)
}

func megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }

// soakSummary compares the memory at the end with the weights and with the memory half-way.
func soakSummary(rows []soakRow, weights int64, precision string) string {
	last, middle := rows[len(rows)-1], rows[len(rows)/2]
	peak := last
	for _, r := range rows {
		if r.memory.Anonymous > peak.memory.Anonymous {
			peak = r
		}
	}
	return fmt.Sprintf("Weights (%s): %.1f MB. Anonymous memory: %.1f MB above them at the end, %.1f MB at most; %+.1f MB since minute %.1f.\n",
		precision, megabytes(weights), megabytes(last.memory.Anonymous-weights), megabytes(peak.memory.Anonymous-weights),
		megabytes(last.memory.Anonymous-middle.memory.Anonymous), middle.after.Minutes())
}

// soak loads the service and writes the rows as they come. It returns the rows so far even where it fails.
func (c *soakCmd) soak(ctx context.Context, out io.Writer, service *bench.Service, texts []string) ([]soakRow, error) {
	var rows []soakRow
	s := &soakLoad{cmd: c, url: service.URL, texts: texts, began: time.Now()}
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
	sending.Go(func() { sent <- s.send(ctx) })
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
	cmd   *soakCmd
	url   string
	texts []string
	began time.Time

	answered, failed atomic.Int64 // requests
}

// The metrics of the memory that Go has obtained from the system, and has returned to it.
const (
	metricGoSystem   = "go_memstats_sys_bytes"
	metricGoReleased = "go_memstats_heap_released_bytes"
)

// row is the state of the service now.
func (s *soakLoad) row(ctx context.Context, service *bench.Service) (r soakRow, err error) {
	r = soakRow{after: time.Since(s.began), requests: s.answered.Load(), failed: s.failed.Load()}
	if r.memory, err = service.Memory(); err != nil {
		return r, err
	}
	if r.cpu, err = service.CPU(); err != nil {
		return r, err
	}
	sums, err := metricSums(ctx, s.url, metricGoSystem, metricGoReleased)
	r.golang = int64(sums[metricGoSystem] - sums[metricGoReleased])
	return r, err
}

// send sends requests until there are enough and the time is over. It fails where every request fails.
func (s *soakLoad) send(ctx context.Context) error {
	to := load.NewHTTP(s.url+scorePath, s.cmd.Concurrency)
	defer to.Close()
	length := time.Duration(s.cmd.Minutes * float64(time.Minute))
	schedule := load.Schedule{Concurrency: s.cmd.Concurrency, More: func(i int, elapsed time.Duration) bool {
		return int64(i) < s.cmd.Requests || elapsed < length
	}}
	r, err := load.Run(ctx, schedule, func(ctx context.Context, i int) ([]byte, error) {
		body, err := s.body(ctx, i)
		if err != nil {
			return nil, err
		}
		reply, err := to.Send(ctx, body)
		switch {
		case err == nil:
			s.answered.Add(1)
		case ctx.Err() == nil:
			s.failed.Add(1)
		}
		return reply, err
	}, nil)
	return errors.Join(err, r.Err())
}

// body is request i, which no earlier request repeats.
func (s *soakLoad) body(ctx context.Context, i int) ([]byte, error) {
	limit := 0
	if s.cmd.Sentences > 0 {
		limit = 1 + i%s.cmd.Sentences
	}
	text, err := unseen(ctx, s.texts[i%len(s.texts)], i/len(s.texts), limit)
	if err != nil {
		return nil, err
	}
	return wire.AppendRequest(nil, rewardmodel.Request{Responses: []rewardmodel.Item{{Response: &text}}})
}

// unseen changes the sentences of a text so that a cache has not seen them in earlier passes over the texts, and keeps at
// most limit of them; 0: all.
func unseen(ctx context.Context, text string, pass, limit int) (string, error) {
	if pass == 0 && limit == 0 {
		return text, nil
	}
	spans, err := segmenter.Segment(ctx, text)
	if err != nil {
		return "", err
	}
	if limit > 0 {
		spans = spans[:min(limit, len(spans))]
	}
	if pass == 0 {
		return text[:spans[len(spans)-1].End], nil
	}
	var b strings.Builder
	for _, span := range spans {
		fmt.Fprintf(&b, "Take %d of %s ", pass, text[span.Start:span.End])
	}
	return b.String(), nil
}
