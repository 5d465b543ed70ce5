package queue

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
)

func TestServerClock(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var c serverClock
	observe := func(ahead, delay time.Duration) time.Duration {
		c.observe(now.Add(delay/2+ahead), now, now.Add(delay))
		return now.Sub(c.local(now))
	}
	require.Zero(t, observe(0, time.Second), "equal clocks")
	require.Zero(t, observe(400*time.Millisecond, time.Second), "as far as can be told")
	require.Equal(t, time.Hour, observe(time.Hour, time.Second))
	require.Equal(t, time.Hour, observe(time.Hour+time.Second, 4*time.Second), "a slow reply says nothing new")
	require.Equal(t, -time.Minute, observe(-time.Minute, time.Millisecond))
	c.observe(time.Time{}, now, now)
	require.Equal(t, now.Add(time.Minute), c.local(now), "a server that does not say")
}

// shifted is a server whose clock is ahead of ours.
type shifted struct {
	jetstream.JetStream
	ahead time.Duration
}

func (s shifted) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	stream, err := s.JetStream.Stream(ctx, name)
	return shiftedStream{stream, s.ahead}, err
}

type shiftedStream struct {
	jetstream.Stream
	ahead time.Duration
}

func (s shiftedStream) CachedInfo() *jetstream.StreamInfo {
	info := *s.Stream.CachedInfo()
	info.TimeStamp = info.TimeStamp.Add(s.ahead)
	return &info
}

type shiftedMsg struct {
	jetstream.Msg
	ahead time.Duration
}

func (m shiftedMsg) Metadata() (*jetstream.MsgMetadata, error) {
	meta, err := m.Msg.Metadata()
	if err == nil {
		meta.Timestamp = meta.Timestamp.Add(m.ahead)
	}
	return meta, err
}

// How long a response has waited is measured by the clock of the server only.
func TestTimeoutByTheClockOfTheServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ahead   time.Duration
		timeout string
		slow    bool
		want    outcome
	}{
		"server behind":           {-time.Hour, "10m", false, outcomeRewarded},
		"server ahead":            {time.Hour, "10m", false, outcomeRewarded},
		"server ahead, too late":  {time.Hour, "50ms", true, outcomeDead},
		"server behind, too late": {-time.Hour, "50ms", true, outcomeDead},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t)
			q := openQueue(t, testConfig(t))
			scorer := scorerFunc(func(ctx context.Context, item rewardmodel.Item) (rewardmodel.Result, error) {
				if c.slow {
					<-ctx.Done()
					return rewardmodel.Result{}, ctx.Err()
				}
				return good(ctx, item)
			})
			w, err := newWorker(q.nc, shifted{q.js, c.ahead}, scorer, q.cfg.Worker, zerolog.Nop(), q.metrics)
			require.NoError(t, err)
			src, err := w.attach(ctx, false)
			require.NoError(t, err)
			_, err = q.js.PublishMsg(ctx, &nats.Msg{Subject: SubjectResponses + ".a", Data: []byte(item("text")), Header: nats.Header{HeaderTimeout: {c.timeout}}})
			require.NoError(t, err)
			msg, err := src.consumer.Next(jetstream.FetchContext(ctx))
			require.NoError(t, err)
			d, err := newDelivery(shiftedMsg{msg, c.ahead}, src)
			require.NoError(t, err)
			require.False(t, d.old)
			require.Equal(t, c.want, w.handle(ctx, d))
		})
	}
}

// Labels come of age by the clock of the server, which stamped them.
func TestFeedbackExpiresByTheClockOfTheServer(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	cfg := testConfig(t)
	cfg.Streams.FeedbackMaxAge = time.Hour
	q := openQueue(t, cfg)
	f := q.Feedback()
	accepts(t, f, 5, 0, some(0, 5)...)
	info, err := f.stream.Info(ctx)
	require.NoError(t, err)
	w := &indexer{Feedback: f}
	require.NoError(t, w.expire(ctx, info))
	require.Equal(t, 5, count(t, q, StreamFeedback))
	info.TimeStamp = info.TimeStamp.Add(2 * time.Hour)
	require.NoError(t, w.expire(ctx, info))
	require.Zero(t, count(t, q, StreamFeedback))
}
