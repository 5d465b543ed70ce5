package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go"

	"assay/lab/bench"
	"assay/lab/load"
	"assay/rewardmodel/tokenizer"
	"assay/segmenter"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

// replicaCmd measures the service curve of one replica.
type replicaCmd struct {
	cli.InputFlags
	URL           string `name:"url" default:"http://127.0.0.1:8080" help:"The service; its /metrics report the CPU time (${default})."`
	Model         string `default:"models/default" placeholder:"DIR" help:"Directory with its tokenizer, or its name under models/ (${default})."`
	Tokens        []int  `default:"50,200,800,2000" help:"Tokens of a response; sentences of the input are joined until they are that long (${default})."`
	Work          int    `default:"100000" help:"Tokens of a row of the table (${default})."`
	Concurrency   int    `default:"8" help:"Requests in flight over HTTP, each of --size responses (${default})."`
	Size          int    `default:"16" help:"Responses per request over HTTP (${default})."`
	cli.NATSFlags `group:"NATS; without --nats-url, only HTTP is measured:"`
}

// Help is shown by --help.
func (*replicaCmd) Help() string {
	return `Example:

    assay serve --cache-bytes 0 --nats-url nats://127.0.0.1:4222 &
    assay-lab bench fleet replica --text reviews.txt --nats-url nats://127.0.0.1:4222

Prints a row for each transport and length: rewards/s, tokens/s, the CPU time of the service per reward and per token,
and the time of its model per token of a batch. Run the service without its cache, and no other on that NATS. The input
must have more sentences than a row reads: a sentence that repeats in a batch costs nothing.`
}

// metricInference is the time of the model, which a row is computed from.
const metricInference = "assay_inference_seconds_sum"

// Run is called by kong.
func (c *replicaCmd) Run(a *cli.App) error {
	if min(c.Work, c.Concurrency, c.Size) < 1 || len(c.Tokens) == 0 || slices.Min(c.Tokens) < 1 {
		return cli.Usage(errors.New("--tokens, --work, --concurrency and --size take positive numbers"))
	}
	dir, err := localmodel.Find("--model", c.Model)
	if err != nil {
		return err
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		return cli.Usage(err)
	}
	texts, err := readTexts(a, c.InputFlags, 0)
	if err != nil {
		return err
	}
	var nc *nats.Conn
	if c.NatsURL != "" {
		if nc, err = cli.Connect(a, c.NATSFlags.Config()); err != nil {
			return err
		}
		defer nc.Close()
	}
	table := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "over\ttokens\tresponses\trewards/s\ttokens/s\tCPU ms/reward\tCPU µs/token\tmodel µs/token\tfailed\t")
	for _, tokens := range c.Tokens {
		work, err := joined(a.Context, tok, texts, tokens, c.Work)
		if err != nil {
			return err
		}
		row := func(over string, run func() (load.Result, error)) error {
			before, err := bench.MetricSums(a.Context, c.URL, bench.MetricCPU, metricInference, bench.MetricTokens)
			if err != nil {
				return err
			}
			l, err := run()
			if err != nil {
				return err
			}
			after, err := bench.MetricSums(a.Context, c.URL, bench.MetricCPU, metricInference, bench.MetricTokens)
			if err != nil {
				return err
			}
			spent := func(name string) float64 { return after[name] - before[name] }
			n, read := float64(len(work)), spent(bench.MetricTokens)
			fmt.Fprintf(table, "%s\t%.0f\t%d\t%.1f\t%.0f\t%.1f\t%.1f\t%.1f\t%d\t\n", over, read/n, len(work), n/l.Elapsed.Seconds(),
				read/l.Elapsed.Seconds(), 1e3*spent(bench.MetricCPU)/n, 1e6*spent(bench.MetricCPU)/read, 1e6*spent(metricInference)/read, l.Failed)
			return nil
		}
		if err := row("HTTP", func() (load.Result, error) {
			bodies, err := bench.Requests(bench.Items(work), c.Size)
			if err != nil {
				return load.Result{}, err
			}
			return bench.Score(a.Context, strings.TrimSuffix(c.URL, "/"), bodies, load.Schedule{Concurrency: c.Concurrency})
		}); err != nil {
			return err
		}
		if nc == nil {
			continue
		}
		if err := row("NATS", func() (load.Result, error) { return stream(a.Context, nc, work, make([]time.Duration, len(work))) }); err != nil {
			return err
		}
	}
	return table.Flush()
}

// joined makes responses of about that many tokens each, work tokens in all, from the sentences of the texts in order.
func joined(ctx context.Context, tok *tokenizer.Tokenizer, texts []string, tokens, work int) ([]string, error) {
	var out []string
	var b strings.Builder
	length, left := 0, work
	for {
		for _, text := range texts {
			spans, err := segmenter.Segment(ctx, text)
			if err != nil {
				return nil, err
			}
			for _, span := range spans {
				sentence := text[span.Start:span.End]
				if b.Len() > 0 {
					b.WriteByte(' ')
				}
				b.WriteString(sentence)
				if length += len(tok.IDs(sentence)); length < tokens {
					continue
				}
				out = append(out, b.String())
				left -= length
				length = 0
				b.Reset()
				if left <= 0 {
					return out, nil
				}
			}
		}
		if len(out) == 0 && length == 0 { // only white space
			return []string{""}, nil
		}
	}
}
