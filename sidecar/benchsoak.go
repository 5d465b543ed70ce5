package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"assay/bench"
	"assay/rewardmodel"
	"assay/rewardmodel/encoder"
	"assay/segmenter"
	"assay/sidecar/cli"
)

// benchSoakCmd watches the memory of a service under load.
type benchSoakCmd struct {
	Requests    int64         `default:"100000" help:"Requests of one response each, at least."`
	Minutes     float64       `default:"10" help:"Length, at least."`
	Concurrency int           `default:"16" help:"Requests in flight."`
	Sentences   int           `default:"0" help:"Cut the texts to 1 to so many sentences, in turn, so that there is time for more requests; 0: leave them as they are."`
	Every       time.Duration `default:"1m" help:"Time from one row of the table to the next."`
	CacheBytes  cli.ByteSize  `default:"64MiB" placeholder:"BYTES" help:"The service's --cache-bytes (${default}), which it fills."`
	selfFlags
}

// Help is shown by --help.
func (*benchSoakCmd) Help() string {
	return `Example:

    assay bench soak
    assay bench soak --precision int8 --minutes 30 --concurrency 64
    assay bench soak --sentences 5

Starts assay serve on free ports and sends it texts of 1 to 60 sentences until both --requests and --minutes are
reached, none of which it has seen before. Prints a row every minute: requests so far, memory that no file backs
(RssAnon) and how much of it Go holds, mapped files (RssFile), the most that was resident (VmHWM), CPU time since the
start, and failed requests; at last what is above the weights, and how much was added in the second half. It needs Linux.`
}

// Run is called by kong.
func (c *benchSoakCmd) Run(a *cli.App) (err error) {
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
func (c *benchSoakCmd) weights() (int64, error) {
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

// soakRow is what was so at a moment.
type soakRow struct {
	after            time.Duration
	requests, failed int64
	memory           bench.Memory
	golang           int64 // bytes of that memory
	cpu              time.Duration
}

const soakHeading = " minute    requests  anonymous MB    Go MB  file MB  peak MB     CPU s  failed\n"

func (r soakRow) String() string {
	return fmt.Sprintf("%7.1f  %10d  %12.1f  %7.1f  %7.1f  %7.1f  %8.1f  %6d\n", r.after.Minutes(), r.requests,
		megabytes(r.memory.Anonymous), megabytes(r.golang), megabytes(r.memory.File), megabytes(r.memory.Peak), r.cpu.Seconds(), r.failed)
}

func megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }

// soakSummary sets the memory at the end beside the weights and what it was half-way.
func soakSummary(rows []soakRow, weights int64, precision string) string {
	last, middle := rows[len(rows)-1], rows[len(rows)/2]
	most := last
	for _, r := range rows {
		if r.memory.Anonymous > most.memory.Anonymous {
			most = r
		}
	}
	return fmt.Sprintf("Weights (%s): %.1f MB. Anonymous memory: %.1f MB above them at the end, %.1f MB at most; %+.1f MB since minute %.1f.\n",
		precision, megabytes(weights), megabytes(last.memory.Anonymous-weights), megabytes(most.memory.Anonymous-weights),
		megabytes(last.memory.Anonymous-middle.memory.Anonymous), middle.after.Minutes())
}

// soak loads the service and writes the rows as they come. It returns those it has even where it fails.
func (c *benchSoakCmd) soak(ctx context.Context, out io.Writer, service *bench.Service, texts []string) ([]soakRow, error) {
	var rows []soakRow
	s := &soaking{cmd: c, url: service.URL, texts: texts, began: time.Now()}
	row := func() error {
		r, err := s.row(context.WithoutCancel(ctx), service) // the last one comes after the end, too
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

// soaking is a load that goes on.
type soaking struct {
	cmd   *benchSoakCmd
	url   string
	texts []string
	began time.Time

	next, answered, failed atomic.Int64 // requests
	last                   atomic.Pointer[error]
}

// The metrics of Go's memory: what it has from the system, and what it gave back of it.
const (
	metricGoSystem   = "go_memstats_sys_bytes"
	metricGoReleased = "go_memstats_heap_released_bytes"
)

// row is how the service is now.
func (s *soaking) row(ctx context.Context, service *bench.Service) (r soakRow, err error) {
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

// send sends requests until there are enough and it took long enough. It fails where none was answered.
func (s *soaking) send(ctx context.Context) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: s.cmd.Concurrency}}
	defer client.CloseIdleConnections()
	length := time.Duration(s.cmd.Minutes * float64(time.Minute))
	var workers sync.WaitGroup
	for range s.cmd.Concurrency {
		workers.Go(func() {
			for ctx.Err() == nil {
				i := s.next.Add(1) - 1
				if i >= s.cmd.Requests && time.Since(s.began) >= length {
					return
				}
				switch err := s.one(ctx, client, int(i)); {
				case err == nil:
					s.answered.Add(1)
				case ctx.Err() == nil:
					s.failed.Add(1)
					s.last.Store(&err)
				}
			}
		})
	}
	workers.Wait()
	if ctx.Err() == nil && s.answered.Load() == 0 {
		return fmt.Errorf("every request failed: %w", *s.last.Load())
	}
	return ctx.Err()
}

func (s *soaking) one(ctx context.Context, client *http.Client, i int) error {
	most := 0
	if s.cmd.Sentences > 0 {
		most = 1 + i%s.cmd.Sentences
	}
	text, err := fresh(ctx, s.texts[i%len(s.texts)], i/len(s.texts), most)
	if err != nil {
		return err
	}
	body, err := rewardmodel.Request{Responses: []rewardmodel.Item{{Response: &text}}}.AppendJSON(nil)
	if err != nil {
		return err
	}
	return send(ctx, client, s.url+"/v1/score", body)
}

// fresh makes the sentences of a text new to a cache that has seen them in the passes before, and leaves at most most of
// them; 0: all.
func fresh(ctx context.Context, text string, pass, most int) (string, error) {
	if pass == 0 && most == 0 {
		return text, nil
	}
	spans, err := segmenter.Segment(ctx, text)
	if err != nil {
		return "", err
	}
	if most > 0 {
		spans = spans[:min(most, len(spans))]
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
