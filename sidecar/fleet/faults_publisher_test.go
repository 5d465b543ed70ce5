package fleet_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/sidecar/processtest"
)

// publisher publishes numbered responses like a program that must not lose one: it retries each with the same
// Nats-Msg-Id until it is acknowledged.
type publisher struct {
	js       jetstream.JetStream
	total    int // minimum number of responses
	subjects int
	next     atomic.Int64 // number of the next response
	acked    atomic.Int64
	again    atomic.Int64 // failed attempts
	known    atomic.Int64 // acknowledged as duplicates
	hurry    chan struct{}
	done     sync.WaitGroup

	mu      sync.Mutex
	slowest time.Duration // from the first attempt to the acknowledgement
}

// publishers is the number of concurrent publications.
const publishers = 8

// startPublisher publishes at a rate per second until hurry is closed, and then without a limit until total is reached.
func startPublisher(t *testing.T, js jetstream.JetStream, total, subjects, rate int) *publisher {
	p := &publisher{js: js, total: total, subjects: subjects, hurry: make(chan struct{})}
	for range publishers {
		p.done.Go(func() { p.run(t.Context(), time.Second*publishers/time.Duration(rate)) })
	}
	return p
}

func (p *publisher) run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-p.hurry:
			if int(p.next.Load()) >= p.total {
				return
			}
		case <-ctx.Done():
			return
		}
		p.publish(ctx, int(p.next.Add(1))-1)
	}
}

func (p *publisher) publish(ctx context.Context, i int) {
	id := fmt.Sprintf("r%05d", i)
	msg := &nats.Msg{Subject: fmt.Sprintf("%s.fleet.s%02d", queue.SubjectResponses, i%p.subjects), Header: nats.Header{}}
	msg.Data = fmt.Appendf(nil, `{"id":%q,"response":"Train %d leaves at noon. Have a good trip, number %d."}`, id, i%997, i)
	msg.Header.Set(jetstream.MsgIDHeader, id)
	began := time.Now()
	for ctx.Err() == nil {
		try, cancel := context.WithTimeout(ctx, 3*time.Second)
		ack, err := p.js.PublishMsg(try, msg)
		cancel()
		if err == nil {
			if ack.Duplicate {
				p.known.Add(1)
			}
			p.mu.Lock()
			p.slowest = max(p.slowest, time.Since(began))
			p.mu.Unlock()
			p.acked.Add(1)
			return
		}
		p.again.Add(1)
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// rewarded are the rewards of numbered responses.
type rewarded struct {
	times      map[string]int // number of rewards of each id
	extra      int            // rewards beyond the first of an id
	inversions int            // rewards of a subject that follow that of a later response
	versions   map[string]int
}

// readRewards reads the stream of rewards to its end.
func readRewards(t *testing.T, js jetstream.JetStream) rewarded {
	t.Helper()
	s, err := js.Stream(t.Context(), queue.StreamRewards)
	require.NoError(t, err)
	state := s.CachedInfo().State
	got := rewarded{times: map[string]int{}, versions: map[string]int{}}
	latest := map[string]string{}
	consumer, err := js.OrderedConsumer(t.Context(), queue.StreamRewards, jetstream.OrderedConsumerConfig{})
	require.NoError(t, err)
	messages, err := consumer.Messages()
	require.NoError(t, err)
	defer messages.Stop()
	for {
		msg, err := messages.Next(jetstream.NextMaxWait(processtest.Timeout))
		require.NoError(t, err)
		var result struct {
			ID string `json:"id"`
		}
		require.NoError(t, json.Unmarshal(msg.Data(), &result))
		if got.times[result.ID]++; got.times[result.ID] > 1 {
			got.extra++
		}
		if result.ID < latest[msg.Subject()] {
			got.inversions++
		}
		latest[msg.Subject()] = max(latest[msg.Subject()], result.ID)
		got.versions[msg.Headers().Get(queue.HeaderModelVersion)]++
		meta, err := msg.Metadata()
		require.NoError(t, err)
		if meta.Sequence.Stream >= state.LastSeq {
			return got
		}
	}
}
