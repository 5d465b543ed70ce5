package queue

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/jstest"
	"assay/rewardmodel"
)

// shifted is a server whose clock is ahead of the local one.
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

// The age of a response is measured only by the clock of the server.
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
		"server ahead, too late":  {time.Hour, "50ms", true, outcomeDeadLettered},
		"server behind, too late": {-time.Hour, "50ms", true, outcomeDeadLettered},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := jstest.Context(t)
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
			d, err := newDelivery(shiftedMsg{msg, c.ahead}, &src)
			require.NoError(t, err)
			require.Equal(t, c.want, w.handle(ctx, d))
		})
	}
}
