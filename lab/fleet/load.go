package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"assay/lab/load"
	"assay/queue"
	"assay/sidecar/cli"
)

// loadCmd streams responses as a trainer does.
type loadCmd struct {
	cli.InputFlags
	arrivalFlags
	cli.NATSFlags `group:"NATS:"`
	Timeout       time.Duration `default:"10m" help:"Timeout of the last reward, from the start (${default})."`
}

// Help is shown by --help.
func (*loadCmd) Help() string {
	return `Example:

    assay-lab bench fleet load --text reviews.txt --nats-url nats://127.0.0.1:4222 --rate 20 --count 2000
    assay-lab bench fleet load --text reviews.txt --nats-url nats://127.0.0.1:4222 --burst 512 --every 30s

Prints rewards/s from the first response to the last reward, and the latency of a reward from when its response is due.
assay-lab bench fleet simulate with the same input, --rate, --burst, --every, --count and --seed prints what to expect.`
}

// Run is called by kong.
func (c *loadCmd) Run(a *cli.App) error {
	if err := c.validate(); err != nil {
		return err
	}
	if c.NatsURL == "" {
		return cli.Usage(errors.New("--nats-url is missing; give the NATS server of the replicas"))
	}
	texts, err := readTexts(a, c.InputFlags, c.Count)
	if err != nil {
		return err
	}
	nc, err := cli.Connect(a, c.NATSFlags.Config())
	if err != nil {
		return err
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(a.Context, c.Timeout)
	defer cancel()
	l, err := stream(ctx, nc, texts, c.times())
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "responses\tseconds\trewards/s\tp50 s\tp99 s\tfailed\t")
	fmt.Fprintf(table, "%d\t%.1f\t%.1f\t%.2f\t%.2f\t%d\t\n", len(l.Latencies), l.Elapsed.Seconds(),
		l.Rate(), l.Percentile(50).Seconds(), l.Percentile(99).Seconds(), l.Failed)
	return table.Flush()
}

// publishWindow is the maximum number of publications without an acknowledgement.
const publishWindow = 1000

// streamed is a response as a message.
type streamed struct {
	ID       string `json:"id"`
	Response string `json:"response"`
}

// outcomes collects the rewards and dead letters of one run.
type outcomes struct {
	tail string // last token of the subjects

	mu        sync.Mutex
	began     time.Time
	times     []time.Duration
	latencies []time.Duration // 0 until there is an outcome
	left      int
	dead      int
	done      chan struct{}
}

// reward counts the first reward of each response.
func (o *outcomes) reward(msg *nats.Msg) {
	_, id, _ := strings.Cut(msg.Header.Get(jetstream.MsgIDHeader), " ")
	o.complete(id, false)
}

// deadLetter counts the dead letters of this run.
func (o *outcomes) deadLetter(msg *nats.Msg) {
	if msg.Header.Get(queue.HeaderSubject) == queue.SubjectResponses+"."+o.tail {
		o.complete(msg.Header.Get(queue.HeaderMsgID), true)
	}
}

// complete parses the number of a response from its id. Ids of different runs differ, since the stream drops duplicates.
func (o *outcomes) complete(id string, dead bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i, err := strconv.Atoi(strings.TrimPrefix(id, o.tail+"-"))
	if err != nil || i < 0 || i >= len(o.times) || o.latencies[i] != 0 {
		return
	}
	if dead {
		o.dead++
	}
	o.latencies[i] = max(1, time.Since(o.began)-o.times[i])
	if o.left--; o.left == 0 {
		close(o.done)
	}
}

// stream publishes a response at each of the times, cycling through the texts, and waits for their rewards. Latencies
// count from the time at which a response is due, and include those of dead letters. Unlike load.Run, one goroutine publishes:
// a stream stores responses in order and replies later, on another subject.
func stream(ctx context.Context, nc *nats.Conn, texts []string, times []time.Duration) (load.Result, error) {
	o := &outcomes{tail: "bench-" + rand.Text(), times: times, left: len(times), latencies: make([]time.Duration, len(times)), done: make(chan struct{})}
	for subject, handle := range map[string]nats.MsgHandler{
		queue.SubjectRewards + "." + o.tail: o.reward, queue.SubjectDead + ".>": o.deadLetter,
	} {
		sub, err := nc.Subscribe(subject, handle)
		if err != nil {
			return load.Result{}, err
		}
		defer func() { _ = sub.Unsubscribe() }() // the connection may be closed
		if err := sub.SetPendingLimits(-1, -1); err != nil {
			return load.Result{}, err
		}
	}
	if err := nc.FlushTimeout(cli.ConnectTimeout); err != nil {
		return load.Result{}, err
	}
	rejected := make(chan error, 1)
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(publishWindow),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, _ *nats.Msg, err error) {
			select {
			case rejected <- err:
			default:
			}
		}))
	if err != nil {
		return load.Result{}, err
	}
	o.began = time.Now()
	for i, at := range times {
		if at > time.Since(o.began) {
			if err := load.WaitUntil(ctx, o.began.Add(at)); err != nil {
				return load.Result{}, err
			}
		}
		id := o.tail + "-" + strconv.Itoa(i)
		body, err := json.Marshal(streamed{id, texts[i%len(texts)]})
		if err != nil {
			return load.Result{}, err
		}
		if _, err = js.PublishAsync(queue.SubjectResponses+"."+o.tail, body, jetstream.WithMsgID(id), jetstream.WithStallWait(time.Minute)); err != nil {
			return load.Result{}, fmt.Errorf("response %d: %w", i, err)
		}
	}
	select {
	case <-o.done:
	case err := <-rejected:
		return load.Result{}, fmt.Errorf("publishing: %w", err)
	case <-ctx.Done():
		o.mu.Lock()
		defer o.mu.Unlock()
		return load.Result{}, fmt.Errorf("%d of %d responses have no reward: %w", o.left, len(times), ctx.Err())
	}
	l := load.Result{Elapsed: time.Since(o.began) - times[0], Latencies: o.latencies, Failed: o.dead}
	slices.Sort(l.Latencies)
	return l, nil
}
