package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"assay/lab/bench"
	"assay/lab/load"
	"assay/queue"
	"assay/queue/embedded"
	"assay/rewardmodel"
	"assay/sidecar/cli"
)

// brokerCmd measures the maximum throughput of NATS.
type brokerCmd struct {
	Count         int          `default:"20000" help:"Responses of a row (${default})."`
	Bytes         []int        `default:"1000,4000" help:"Lengths of responses in bytes (${default})."`
	Instances     int          `default:"20" help:"Instances of each result (${default})."`
	Window        []int        `default:"1,1000" help:"Maximum publications without an acknowledgement (${default})."`
	Copies        int          `default:"1" help:"Replicas of each stream, in a cluster (${default})."`
	Sync          cli.SyncMode `default:"always" enum:"always,interval" help:"When the embedded server flushes to disk (${enum})."`
	cli.NATSFlags `group:"NATS; without --nats-url, an embedded server in a temporary directory:"`
}

// Help is shown by --help.
func (*brokerCmd) Help() string {
	return `Example:

    assay-lab bench fleet broker
    assay-lab bench fleet broker --nats-url nats://a:4222,nats://b:4222,nats://c:4222 --copies 3

Prints a row for each length and window: responses/s and MB/s that are published and acknowledged, rewards/s of one
replica with a scorer that takes no time (from the delivery to the acknowledged reward), both at the same time, the CPU
time of this process per response of the latter (with the server where it is embedded), and the bytes that the streams
store per response and per reward. The server must be otherwise idle: a waiting response is an error. The rewards stay
in ASSAY_REWARDS.`
}

// Run is called by kong.
func (c *brokerCmd) Run(a *cli.App) error {
	for _, n := range append(append([]int{c.Count, c.Copies, len(c.Bytes), len(c.Window)}, c.Bytes...), c.Window...) {
		if n < 1 {
			return cli.Usage(errors.New("--count, --bytes, --window and --copies take positive numbers"))
		}
	}
	table := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "bytes\twindow\tpublished/s\tMB/s\trewards/s\tboth/s\tCPU µs\tstored response\tstored reward\t")
	for _, bytes := range c.Bytes {
		for _, window := range c.Window {
			row, err := c.row(a, bytes, window)
			if err != nil {
				return err
			}
			fmt.Fprintf(table, "%d\t%d\t%.0f\t%.1f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t\n", bytes, window, row.published,
				row.published*float64(bytes)/1e6, row.rewarded, row.both, row.cpu*1e6, row.response, row.reward)
		}
	}
	return table.Flush()
}

// brokerRow holds rates per second, CPU seconds, and bytes.
type brokerRow struct{ published, rewarded, both, cpu, response, reward float64 }

// row measures publishing, consuming and both at the same time.
func (c *brokerCmd) row(a *cli.App, bytes, window int) (row brokerRow, err error) {
	dir, err := os.MkdirTemp("", "assay-bench-*")
	if err != nil {
		return row, err
	}
	defer os.RemoveAll(dir)
	q, err := queue.Open(a.Context, queue.Config{
		Server:  embedded.Config{Listen: "127.0.0.1:0", DataDir: dir, SyncInterval: c.Sync.Interval()},
		Conn:    c.NATSFlags.Config(),
		Streams: queue.StreamsConfig{Replicas: c.Copies},
	}, a.Log.Level(zerolog.ErrorLevel), prometheus.NewRegistry())
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, q.Close(context.WithoutCancel(a.Context))) }()
	b := &brokerBench{queue: q, count: c.Count, body: strings.Repeat("A sentence. ", bytes/12+1)[:bytes]}
	if b.js, err = jetstream.New(q.Conn(), jetstream.WithPublishAsyncMaxPending(window)); err != nil {
		return row, err
	}
	before, err := b.state(a.Context, queue.StreamResponses)
	if err != nil {
		return row, err
	}
	if before.Msgs > 0 {
		return row, cli.Usage(fmt.Errorf("%d responses wait in %s; use an otherwise idle server", before.Msgs, queue.StreamResponses))
	}
	if row.published, err = b.rate(func() error { return b.publish(a.Context) }); err != nil {
		return row, err
	}
	full, err := b.state(a.Context, queue.StreamResponses)
	if err != nil {
		return row, err
	}
	row.response = float64(full.Bytes) / float64(full.Msgs)
	rewards, err := b.state(a.Context, queue.StreamRewards)
	if err != nil {
		return row, err
	}
	if row.rewarded, err = b.rate(func() error {
		if err := q.Start(a.Context, emptyScorer{c.Instances}); err != nil {
			return err
		}
		return b.empty(a.Context)
	}); err != nil {
		return row, err
	}
	after, err := b.state(a.Context, queue.StreamRewards)
	if err != nil {
		return row, err
	}
	row.reward = float64(after.Bytes-rewards.Bytes) / float64(after.Msgs-rewards.Msgs)
	spent, err := bench.OwnCPU()
	if err != nil {
		return row, err
	}
	if row.both, err = b.rate(func() error { return errors.Join(b.publish(a.Context), b.empty(a.Context)) }); err != nil {
		return row, err
	}
	now, err := bench.OwnCPU()
	row.cpu = (now - spent).Seconds() / float64(b.count)
	return row, err
}

// brokerBench publishes and waits on one connection.
type brokerBench struct {
	queue *queue.Queue
	js    jetstream.JetStream
	count int
	body  string
}

// rate measures an operation on all responses, in responses per second.
func (b *brokerBench) rate(do func() error) (float64, error) {
	began := time.Now()
	err := do()
	return float64(b.count) / time.Since(began).Seconds(), err
}

// publish publishes all responses and waits for their acknowledgements.
func (b *brokerBench) publish(ctx context.Context) error {
	run := rand.Text()
	acks := make([]jetstream.PubAckFuture, b.count)
	for i := range acks {
		body, err := json.Marshal(streamed{strconv.Itoa(i), b.body})
		if err != nil {
			return err
		}
		if acks[i], err = b.js.PublishAsync(queue.SubjectResponses+".bench", body, jetstream.WithMsgID(run+"-"+strconv.Itoa(i)), jetstream.WithStallWait(time.Minute)); err != nil {
			return err
		}
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// emptyEvery is the interval at which the stream is polled.
const emptyEvery = 20 * time.Millisecond

// empty waits until every response has its reward.
func (b *brokerBench) empty(ctx context.Context) error {
	for {
		state, err := b.state(ctx, queue.StreamResponses)
		if err != nil || state.Msgs == 0 {
			return err
		}
		if err := load.WaitUntil(ctx, time.Now().Add(emptyEvery)); err != nil {
			return err
		}
	}
}

func (b *brokerBench) state(ctx context.Context, name string) (jetstream.StreamState, error) {
	s, err := b.js.Stream(ctx, name)
	if err != nil {
		return jetstream.StreamState{}, err
	}
	return s.CachedInfo().State, nil
}

// emptyScorer returns results of the usual size immediately.
type emptyScorer struct{ instances int }

// Score implements queue.Scorer.
func (s emptyScorer) Score(_ context.Context, req rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	answer := rewardmodel.ScoreResponse{Model: rewardmodel.ModelInfo{Name: "assay", Version: "bench"}, OffsetUnit: rewardmodel.OffsetCodepoint}
	for _, item := range req.Responses {
		result := rewardmodel.Result{ID: item.ID, Reward: 0.8125731, Compliant: true, Violation: 0.1431427, Threshold: 0.5019531,
			Witness:   &rewardmodel.Witness{Index: 1, Start: 52, End: 107, Text: strings.Repeat("word ", 11), Violation: 0.1431427},
			Instances: make([]rewardmodel.Instance, s.instances)}
		for i := range result.Instances {
			result.Instances[i] = rewardmodel.Instance{Start: 55 * i, End: 55*i + 54, Violation: 0.0231427}
		}
		answer.Results = append(answer.Results, result)
	}
	return answer, nil
}
