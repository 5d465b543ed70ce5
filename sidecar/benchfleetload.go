package main

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

	"assay/queue"
	"assay/sidecar/cli"
)

// benchFleetLoadCmd streams responses as a trainer does.
type benchFleetLoadCmd struct {
	cli.InputFlags
	arrivalFlags
	cli.NATSFlags `group:"NATS:"`
	Timeout       time.Duration `default:"10m" help:"Longest wait for the last reward."`
}

// Help is shown by --help.
func (*benchFleetLoadCmd) Help() string {
	return `Example:

    assay bench fleet load --text reviews.txt --nats-url nats://127.0.0.1:4222 --rate 20 --count 2000
    assay bench fleet load --text reviews.txt --nats-url nats://127.0.0.1:4222 --burst 512 --every 30s

Prints rewards/s from the first response to the last reward, and the time from when a response should have been
published to its reward. assay bench fleet simulate with the same input, --rate, --burst, --every, --count and --seed
tells what was to be expected.`
}

// Run is called by kong.
func (c *benchFleetLoadCmd) Run(a *cli.App) error {
	if err := c.validate(); err != nil {
		return err
	}
	if c.NatsURL == "" {
		return cli.Usage(errors.New("--nats-url is missing: where the replicas take their responses"))
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
	fmt.Fprintf(table, "%d\t%.1f\t%.1f\t%.2f\t%.2f\t%d\t\n", len(l.latencies), l.total.Seconds(),
		float64(len(l.latencies))/l.total.Seconds(), l.percentile(50)/1000, l.percentile(99)/1000, l.failed)
	return table.Flush()
}

// publishWindow is how many publications wait for their acknowledgement at once.
const publishWindow = 1000

// streamed is a response as a message.
type streamed struct {
	ID       string `json:"id"`
	Response string `json:"response"`
}

// outcomes collects rewards and dead letters of one run.
type outcomes struct {
	tail string // of the subjects

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
	o.settle(id, false)
}

// letter counts the dead letters of this run.
func (o *outcomes) letter(msg *nats.Msg) {
	if msg.Header.Get(queue.HeaderSubject) == queue.SubjectResponses+"."+o.tail {
		o.settle(msg.Header.Get(queue.HeaderMsgID), true)
	}
}

// settle reads the number of a response in its id, which no other run has: the stream drops an id that it knows.
func (o *outcomes) settle(id string, dead bool) {
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

// stream publishes a response for each of the times, the texts in turn, and waits for what comes of them. Latencies
// count from when a response should have been published.
func stream(ctx context.Context, nc *nats.Conn, texts []string, times []time.Duration) (load, error) {
	o := &outcomes{tail: "bench-" + rand.Text(), times: times, left: len(times), latencies: make([]time.Duration, len(times)), done: make(chan struct{})}
	for subject, handle := range map[string]nats.MsgHandler{
		queue.SubjectRewards + "." + o.tail: o.reward, queue.SubjectDead + ".>": o.letter,
	} {
		sub, err := nc.Subscribe(subject, handle)
		if err != nil {
			return load{}, err
		}
		defer func() { _ = sub.Unsubscribe() }() // the connection may be gone
		if err := sub.SetPendingLimits(-1, -1); err != nil {
			return load{}, err
		}
	}
	if err := nc.FlushTimeout(cli.ConnectTimeout); err != nil {
		return load{}, err
	}
	refused := make(chan error, 1)
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(publishWindow),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, _ *nats.Msg, err error) {
			select {
			case refused <- err:
			default:
			}
		}))
	if err != nil {
		return load{}, err
	}
	o.began = time.Now()
	for i, at := range times {
		if at > time.Since(o.began) {
			if err := sleepUntil(ctx, o.began.Add(at)); err != nil {
				return load{}, err
			}
		}
		id := o.tail + "-" + strconv.Itoa(i)
		body, err := json.Marshal(streamed{id, texts[i%len(texts)]})
		if err != nil {
			return load{}, err
		}
		if _, err = js.PublishAsync(queue.SubjectResponses+"."+o.tail, body, jetstream.WithMsgID(id), jetstream.WithStallWait(time.Minute)); err != nil {
			return load{}, fmt.Errorf("response %d: %w", i, err)
		}
	}
	select {
	case <-o.done:
	case err := <-refused:
		return load{}, fmt.Errorf("publishing: %w", err)
	case <-ctx.Done():
		o.mu.Lock()
		defer o.mu.Unlock()
		return load{}, fmt.Errorf("%d of %d responses have no reward: %w", o.left, len(times), ctx.Err())
	}
	l := load{total: time.Since(o.began) - times[0], latencies: o.latencies, failed: o.dead}
	slices.Sort(l.latencies)
	return l, nil
}
