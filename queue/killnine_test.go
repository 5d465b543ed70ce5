package queue

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/queue/embedded"
	"assay/queue/internal/jstest"
	"assay/rewardmodel"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// childEnv makes the test binary serve as a separate process, with its data in the
// directory that the variable names.
const childEnv = "ASSAY_QUEUE_TEST_CHILD"

// child serves until its standard input ends, which it does when the parent
// dies, or until it is killed.
func child(dir string) int {
	ctx := context.Background()
	cfg := Config{
		Server: embedded.Config{Listen: "127.0.0.1:0", DataDir: dir},
		Worker: WorkerConfig{AckWait: time.Second, MaxInFlight: 32, RetryBase: time.Millisecond, RetryMax: 50 * time.Millisecond,
			Journal: filepath.Join(dir, "in-flight")},
	}
	q, err := Open(ctx, cfg, zerolog.New(os.Stderr).Level(zerolog.WarnLevel), prometheus.NewRegistry())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(q.URL())
	if err := q.Start(ctx, scorerFunc(moody)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	io.Copy(io.Discard, os.Stdin)
	if err := q.Close(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// moody is often overloaded, which is another reason for redeliveries.
func moody(ctx context.Context, it rewardmodel.Item) (rewardmodel.Result, error) {
	if rand.IntN(10) == 0 {
		return rewardmodel.Result{}, &rewardmodel.OverloadedError{RetryAfter: time.Millisecond}
	}
	return good(ctx, it)
}

type process struct {
	cmd *exec.Cmd
	in  io.Closer
	nc  *nats.Conn
	js  jetstream.JetStream
}

func spawn(t *testing.T, dir string) *process {
	t.Helper()
	return spawnUnder(t, nil, dir)
}

// spawnUnder starts a child by another program, which gets it as its arguments.
func spawnUnder(t *testing.T, program []string, dir string) *process {
	t.Helper()
	args := append(slices.Clone(program), os.Args[0], "-test.run=^$")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	url, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, "the child did not start")
	nc, err := nats.Connect(strings.TrimSpace(url), nats.NoReconnect())
	require.NoError(t, err)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return &process{cmd, in, nc, js}
}

func (p *process) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Kill())
	require.Error(t, p.cmd.Wait(), "killed")
	p.nc.Close()
}

func TestKillNineWhileResponsesAreInFlight(t *testing.T) {
	t.Parallel()
	const kills, batch = 6, 300
	dir := t.TempDir()
	accepted := 0
	for range kills {
		p := spawn(t, dir)
		for i := range batch {
			id := fmt.Sprintf("r%d", accepted+i)
			msg := &nats.Msg{Subject: fmt.Sprintf("%s.job.%d", SubjectResponses, i%7), Data: []byte(item(id)), Header: nats.Header{}}
			if i%2 == 0 {
				msg.Header.Set(jetstream.MsgIDHeader, id)
			} else {
				msg.Data = fmt.Appendf(nil, `{"id":%q,"response":%q}`, id, id)
			}
			_, err := p.js.PublishMsgAsync(msg)
			require.NoError(t, err)
		}
		<-p.js.PublishAsyncComplete()
		accepted += batch
		// At a random moment before all are done.
		enough := uint64(accepted - batch + rand.IntN(batch*3/4))
		require.Eventually(t, func() bool { return rewards(p) >= enough }, jstest.Timeout, time.Millisecond)
		p.kill(t)
	}

	p := spawn(t, dir)
	defer p.nc.Close()
	require.Eventually(t, func() bool {
		s, err := p.js.Stream(context.Background(), StreamResponses)
		return err == nil && s.CachedInfo().State.Msgs == 0
	}, jstest.Timeout, 10*time.Millisecond)
	require.Equal(t, uint64(accepted), rewards(p))
	ids := map[string]int{}
	s, err := p.js.Stream(t.Context(), StreamRewards)
	require.NoError(t, err)
	for seq := uint64(1); seq <= rewards(p); seq++ {
		msg, err := s.GetMsg(t.Context(), seq)
		require.NoError(t, err)
		var result rewardmodel.Result
		require.NoError(t, json.Unmarshal(msg.Data, &result))
		ids[result.ID]++
	}
	for i := range accepted {
		require.Equal(t, 1, ids[fmt.Sprintf("r%d", i)])
	}
	dead, err := p.js.Stream(t.Context(), StreamDead)
	require.NoError(t, err)
	require.Zero(t, dead.CachedInfo().State.Msgs)

	// SIGTERM ends the process.
	require.NoError(t, p.in.Close())
	require.NoError(t, p.cmd.Wait())
}

func rewards(p *process) uint64 {
	s, err := p.js.Stream(context.Background(), StreamRewards)
	if err != nil {
		return 0
	}
	return s.CachedInfo().State.LastSeq
}

// TestChaos injects random faults in one process, replaces the worker and restarts
// the server while responses arrive.
func TestChaos(t *testing.T) {
	t.Parallel()
	const rounds, batch = 5, 200
	cfg := testConfig(t)
	cfg.Worker.AckWait = time.Second
	cfg.Worker.MaxDeliver = 1000 // the model fails at random here, not because of a response
	for round := range rounds {
		q := openQueue(t, cfg)
		w, err := newWorker(q.nc, q.js, scorerFunc(func(ctx context.Context, it rewardmodel.Item) (rewardmodel.Result, error) {
			switch rand.IntN(12) {
			case 0:
				return rewardmodel.Result{}, rewardmodel.ErrModel
			case 1:
				return rewardmodel.Result{}, rewardmodel.ErrClosed
			}
			return moody(ctx, it)
		}), cfg.Worker, q.log, q.metrics)
		require.NoError(t, err)
		w.publish = func(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
			switch rand.IntN(12) {
			case 0:
				return nil, errors.New("it never arrived")
			case 1:
				_, err := q.js.PublishMsg(ctx, msg, opts...)
				return nil, errors.Join(err, errors.New("it arrived, but we do not know"))
			}
			return q.js.PublishMsg(ctx, msg, opts...)
		}
		w.ack = func(msg jetstream.Msg) error {
			if rand.IntN(6) == 0 {
				return errors.New("the acknowledgement is lost")
			}
			return msg.Ack()
		}
		require.NoError(t, w.start(t.Context()))
		for i := range batch {
			publish(t, q, "chaos", fmt.Sprintf("%d-%d", round, i), item("text"))
			if i%40 == 0 {
				publish(t, q, "chaos", fmt.Sprintf("bad-%d-%d", round, i), "{")
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()                             // while responses are in flight
		if err := w.drain(ctx); err != nil { // unless everything was completed
			require.ErrorIs(t, err, context.Canceled)
		}
		closeQueue(t, q)
	}
	q := startQueue(t, cfg, scorerFunc(good))
	awaitEmpty(t, q)
	require.Equal(t, rounds*batch, jstest.Count(q.js, StreamRewards))
	require.Equal(t, rounds*batch/40, jstest.Count(q.js, StreamDead))
}
