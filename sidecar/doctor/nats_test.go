package doctor

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/queue/embedded"
	"assay/sidecar/serve"
)

func TestNATS(t *testing.T) {
	stream := queue.StreamInspection{Name: "ASSAY_RESPONSES", Messages: 3, Bytes: 100, MaxBytes: 1000, Replicas: 1, RejectsWhenFull: true}
	good := func() *queue.Inspection {
		return &queue.Inspection{
			URL: "nats://nats:4222", Version: "2.12.1", RoundTrip: time.Millisecond, MaxPayload: 8 << 20,
			Streams: []queue.StreamInspection{stream}, Servers: []queue.ServerSync{{Name: "n1", Always: true}},
		}
	}
	for name, tc := range map[string]struct {
		change   func(*queue.Inspection)
		replicas int
		outcome
	}{
		"good":          {func(*queue.Inspection) {}, 0, outcome{OK, []string{"nats://nats:4222: nats-server 2.12.1, round trip 1ms, messages up to 8.0 MiB"}}},
		"no JetStream":  {func(i *queue.Inspection) { i.JetStream, i.Streams = jetstream.ErrJetStreamNotEnabled, nil }, 0, outcome{Error, []string{"enable JetStream"}}},
		"far":           {func(i *queue.Inspection) { i.RoundTrip = time.Second }, 0, outcome{Warning, []string{"round trip"}}},
		"no permission": {func(i *queue.Inspection) { i.Missing = []string{"publish assay.v1.rewards.>"} }, 0, outcome{Error, []string{"publish assay.v1.rewards.>", "k8s/nats/values.yaml"}}},
		"unknown":       {func(i *queue.Inspection) { i.Permissions = errors.New("timeout") }, 0, outcome{Warning, []string{"$SYS.REQ.USER.INFO"}}},
		"ahead":         {func(i *queue.Inspection) { i.Ahead = time.Minute }, 0, outcome{Warning, []string{"1m0s ahead"}}},
		"sync":          {func(i *queue.Inspection) { i.Servers[0] = queue.ServerSync{Name: "n1", Interval: 2 * time.Minute} }, 0, outcome{Warning, []string{"n1 syncs every 2m0s", "sync_interval: always"}}},
		"unknown sync":  {func(i *queue.Inspection) { i.Servers = nil }, 0, outcome{Warning, []string{"do not report"}}},
		"absent stream": {func(i *queue.Inspection) { i.Streams[0].Err = jetstream.ErrStreamNotFound }, 3, outcome{OK, nil}},
		"incompatible": {func(i *queue.Inspection) {
			i.Streams[0].Err = fmt.Errorf("%w: storage is memory", queue.ErrIncompatibleStream)
		}, 0, outcome{Error, []string{"storage is memory"}}},
		"unreadable":     {func(i *queue.Inspection) { i.Streams[0].Err = errors.New("timeout") }, 0, outcome{Error, []string{"cannot be read"}}},
		"damaged":        {func(i *queue.Inspection) { i.Streams[0].Lost = 3 }, 0, outcome{Error, []string{"has lost 3 messages", "assay feedback verify"}}},
		"leaderless":     {func(i *queue.Inspection) { i.Streams[0].Leaderless = true }, 0, outcome{Error, []string{"no leader"}}},
		"replica behind": {func(i *queue.Inspection) { i.Streams[0].Behind = []string{"n3"} }, 0, outcome{Warning, []string{"n3"}}},
		"few replicas":   {func(i *queue.Inspection) {}, 3, outcome{Warning, []string{"replicas: 1, fewer than --stream-replicas 3"}}},
		"nearly full":    {func(i *queue.Inspection) { i.Streams[0].Bytes = 900 }, 0, outcome{Warning, []string{"900 B of at most 1000 B"}}},
		"full, rotating": {func(i *queue.Inspection) { i.Streams[0].Bytes, i.Streams[0].RejectsWhenFull = 1000, false }, 0, outcome{OK, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			i := good()
			tc.change(i)
			tc.of(t, nats(i, tc.replicas))
		})
	}
	outcome{Error, []string{"connection refused", "--nats-url"}}.of(t, unreachable(errors.New("connection refused")))
}

func TestEmbeddedStreams(t *testing.T) {
	outcome{OK, []string{"assay feedback verify"}}.of(t, stream(queue.StreamInspection{Name: "ASSAY_FEEDBACK", Messages: 1}, 0))
	outcome{OK, []string{"assay feedback verify --nats-url nats://127.0.0.1:4222"}}.of(t, embeddedStreams(nil, "127.0.0.1:4222"))
	i := &queue.Inspection{Streams: []queue.StreamInspection{{Name: "ASSAY_EVENTS", Messages: 1, Lost: 1}}}
	outcome{Error, []string{"ASSAY_EVENTS is damaged"}}.of(t, embeddedStreams(i, "127.0.0.1:4222"))
}

func TestEmbeddedSync(t *testing.T) {
	outcome{OK, nil}.of(t, embeddedSync(0))
	outcome{Warning, []string{"10s", "--sync always"}}.of(t, embeddedSync(embedded.RelaxedSync))
	require.Len(t, embeddedSync(0), 1)
}

// While the service runs, the streams of its embedded server are inspected too.
func TestStreamsOfARunningService(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	q, err := queue.Open(t.Context(), queue.Config{Server: embedded.Config{Listen: "127.0.0.1:0", DataDir: dir}}, zerolog.Nop(), prometheus.NewRegistry())
	require.NoError(t, err)
	cfg := serve.Config{NATS: true, DataDir: dir}
	cfg.Queue.Server.Listen = strings.TrimPrefix(q.URL(), "nats://")
	found := natsCheck(cfg).Run(t.Context())
	require.Len(t, found, 1+7, "%v", found)
	require.NoError(t, q.Close(t.Context()))
	found = natsCheck(cfg).Run(t.Context())
	require.Len(t, found, 1+1, "%v", found)
}
