package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"assay/queue/embedded"
	"assay/queue/internal/jstest"
	"assay/rewardmodel"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

func request(texts ...string) rewardmodel.Request {
	var req rewardmodel.Request
	for _, text := range texts {
		req.Responses = append(req.Responses, rewardmodel.Item{ID: text, Response: &text})
	}
	return req
}

func TestRequestReply(t *testing.T) {
	t.Parallel()
	q := startQueue(t, testConfig(t), scorerFunc(good))
	nc, err := nats.Connect(q.URL()) // as any client, over a socket
	require.NoError(t, err)
	defer nc.Close()
	reply, err := nc.Request(SubjectScore, []byte(`{"responses":[{"id":"a","response":"x"},{"id":"b","messages":[]}]}`), jstest.Timeout)
	require.NoError(t, err)
	require.Empty(t, reply.Header.Get(micro.ErrorHeader))
	require.Equal(t, "v7", reply.Header.Get("Assay-Model-Version"))
	require.Equal(t, "3/x", reply.Header.Get("Assay-Numerics"))
	var answer rewardmodel.ScoreResponse
	require.NoError(t, json.Unmarshal(reply.Data, &answer))
	require.Equal(t, "v7", answer.Model.Version)
	require.Len(t, answer.Results, 2)
	require.Equal(t, "b", answer.Results[1].ID)

	// Service discovery finds it.
	info, err := nc.Request("$SRV.INFO.assay", nil, jstest.Timeout)
	require.NoError(t, err)
	require.Contains(t, string(info.Data), SubjectScore)
	require.Contains(t, string(info.Data), `"queue_group":"assay"`)
}

func TestRequestErrors(t *testing.T) {
	t.Parallel()
	overload := &rewardmodel.OverloadedError{RetryAfter: 2500 * time.Millisecond}
	q := startQueue(t, testConfig(t), scorerFunc(func(ctx context.Context, it rewardmodel.Item) (rewardmodel.Result, error) {
		switch *it.Response {
		case "full":
			return rewardmodel.Result{}, overload
		case "closed":
			return rewardmodel.Result{}, rewardmodel.ErrClosed
		case "model":
			return rewardmodel.Result{}, fmt.Errorf("%w: secret path", rewardmodel.ErrModel)
		case "other":
			return rewardmodel.Result{}, errors.New("secret path")
		case "pinned":
			return rewardmodel.Result{}, &rewardmodel.InputError{Kind: rewardmodel.KindNotFound, Field: "model", Message: "is not loaded"}
		case "slow":
			<-ctx.Done()
			return rewardmodel.Result{}, ctx.Err()
		}
		return rewardmodel.Result{Witness: &rewardmodel.Witness{Text: strings.Repeat("x", embedded.DefaultMaxPayload)}}, nil
	}))
	score := func(text string) string { return fmt.Sprintf(`{"responses":[%s]}`, item(text)) }
	tests := []struct{ name, body, timeout, code, wants string }{
		{"broken", `{"responses":`, "", "400", `"code":"invalid"`},
		{"unknown option", `{"responses":[{"response":"x"}],"options":{"what":1}}`, "", "400", `"field":"options.what"`},
		{"empty list", `{"responses":[]}`, "", "422", `"code":"unprocessable"`},
		{"too many", `{"responses":[` + strings.Repeat(item("x")+",", 8192) + item("x") + `]}`, "", "413", `"code":"too_large"`},
		{"pinned", score("pinned"), "", "404", `"field":"model"`},
		{"full", score("full"), "", "503", `"code":"overloaded"`},
		{"closed", score("closed"), "", "503", `"code":"shutting_down"`},
		{"model", score("model"), "", "500", `"code":"model_failed"`},
		{"other", score("other"), "", "500", `"code":"internal"`},
		{"deadline", score("slow"), "20ms", "504", `"code":"deadline_exceeded"`},
		{"bad timeout", score("x"), "soon", "400", `"field":"Assay-Timeout"`},
		{"answer too large", score("x"), "", "413", `the result is`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			msg := &nats.Msg{Subject: SubjectScore, Data: []byte(tc.body), Header: nats.Header{}}
			if tc.timeout != "" {
				msg.Header.Set(HeaderTimeout, tc.timeout)
			}
			reply, err := q.nc.RequestMsg(msg, jstest.Timeout)
			require.NoError(t, err)
			require.Equal(t, tc.code, reply.Header.Get("Nats-Service-Error-Code"))
			require.NotEmpty(t, reply.Header.Get("Nats-Service-Error"))
			require.Contains(t, string(reply.Data), tc.wants)
			require.NotContains(t, string(reply.Data), "secret")
			if tc.name == "full" {
				require.Equal(t, "3", reply.Header.Get("Retry-After"))
			}
		})
	}

	// The client returns the errors of a local scorer.
	client := NewClient(q.nc)
	for text, want := range map[string]error{"full": rewardmodel.ErrOverloaded, "closed": rewardmodel.ErrClosed, "model": rewardmodel.ErrModel} {
		_, err := client.Score(t.Context(), request(text))
		require.ErrorIs(t, err, want)
	}
	_, err := client.Score(t.Context(), request("full"))
	var overloaded *rewardmodel.OverloadedError
	require.ErrorAs(t, err, &overloaded)
	require.Equal(t, 3*time.Second, overloaded.RetryAfter)
	_, err = client.Score(t.Context(), rewardmodel.Request{})
	var input *rewardmodel.InputError
	require.ErrorAs(t, err, &input)
	require.Equal(t, rewardmodel.KindUnprocessable, input.Kind)
	_, err = client.Score(t.Context(), request(strings.Repeat("x", 9<<20)))
	require.ErrorAs(t, err, &input)
	require.Equal(t, rewardmodel.KindTooLarge, input.Kind)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = client.Score(ctx, request("slow"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestClientSendsTheWholeRequest(t *testing.T) {
	t.Parallel()
	got := make(chan rewardmodel.Request, 1)
	q := openQueue(t, testConfig(t))
	require.NoError(t, q.Start(t.Context(), captured(got)))
	want := rewardmodel.Request{
		Model: "m",
		Responses: []rewardmodel.Item{
			{ID: "1", Prompt: "p", Response: new(""), Metadata: []byte(`{"a":[1]}`)},
			{ID: "2", Messages: []rewardmodel.Message{{Role: "assistant", Content: "\x00 \u2028 😀"}}},
			{ID: "3", Instances: []string{}},
		},
		Options: rewardmodel.Options{Reward: rewardmodel.RewardLogit, Aggregate: rewardmodel.AggregateTopK, OffsetUnit: rewardmodel.OffsetUTF16,
			Reasoning: rewardmodel.ReasoningScore, Instances: new(false), TopK: new(2)},
	}
	_, err := NewClient(q.nc).Score(t.Context(), want)
	require.NoError(t, err)
	want.Source = "nats " + SubjectScore
	require.Equal(t, want, <-got)
}

type captured chan rewardmodel.Request

func (c captured) Score(_ context.Context, req rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	c <- req
	return rewardmodel.ScoreResponse{Results: []rewardmodel.Result{}}, nil
}

func TestNoResponders(t *testing.T) {
	t.Parallel()
	q := openQueue(t, testConfig(t))
	_, err := NewClient(q.nc).Score(t.Context(), request("x"))
	require.ErrorIs(t, err, nats.ErrNoResponders)
	require.ErrorContains(t, err, "check the address")
}

func TestMoreRequestsThanAllowed(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Service.MaxRequests = 3
	release := make(chan struct{})
	var scoring atomic.Int32
	q := startQueue(t, cfg, scorerFunc(func(ctx context.Context, it rewardmodel.Item) (rewardmodel.Result, error) {
		scoring.Add(1)
		<-release
		return good(ctx, it)
	}))
	client := NewClient(q.nc)
	var done sync.WaitGroup
	for range 3 {
		done.Go(func() {
			_, err := client.Score(t.Context(), request("x"))
			require.NoError(t, err)
		})
	}
	require.Eventually(t, func() bool { return scoring.Load() == 3 }, jstest.Timeout, time.Millisecond)
	_, err := client.Score(t.Context(), request("x"))
	require.ErrorIs(t, err, rewardmodel.ErrOverloaded)
	close(release)
	done.Wait()
}

func TestDrainCompletesAcceptedRequests(t *testing.T) {
	t.Parallel()
	for name, patient := range map[string]bool{"in time": true, "too late": false} {
		t.Run(name, func(t *testing.T) {
			scoring, release := make(chan struct{}), make(chan struct{})
			q := startQueue(t, testConfig(t), scorerFunc(func(ctx context.Context, it rewardmodel.Item) (rewardmodel.Result, error) {
				close(scoring)
				select {
				case <-release:
					return good(ctx, it)
				case <-ctx.Done():
					return rewardmodel.Result{}, ctx.Err()
				}
			}))
			answered := make(chan error, 1)
			go func() {
				_, err := NewClient(q.nc).Score(context.Background(), request("x"))
				answered <- err
			}()
			<-scoring
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			drained := make(chan error, 1)
			go func() { drained <- q.Drain(ctx) }()
			require.Eventually(t, func() bool { return q.service.micro.Stopped() }, jstest.Timeout, time.Millisecond)
			require.ErrorIs(t, q.Ready(t.Context()), ErrNotReady)
			if patient {
				close(release)
				require.NoError(t, <-answered)
				require.NoError(t, <-drained)
			} else {
				cancel()
				require.ErrorIs(t, <-answered, rewardmodel.ErrClosed)
				require.ErrorIs(t, <-drained, context.Canceled)
			}
		})
	}
}

func TestLifeOfAQueue(t *testing.T) {
	t.Parallel()
	q, err := Open(t.Context(), testConfig(t), zerolog.Nop(), prometheus.NewRegistry())
	require.NoError(t, err)
	require.ErrorIs(t, q.Ready(t.Context()), ErrNotReady, "not started")
	require.NoError(t, q.Start(t.Context(), scorerFunc(good)))
	require.NoError(t, q.Ready(t.Context()))
	require.Error(t, q.Start(t.Context(), scorerFunc(good)), "twice")

	require.NoError(t, q.js.DeleteStream(t.Context(), StreamDead))
	require.ErrorContains(t, q.Ready(t.Context()), StreamDead)

	require.NoError(t, q.Drain(t.Context()))
	require.NoError(t, q.Drain(t.Context()))
	closeQueue(t, q)
	closeQueue(t, q)

	_, err = Open(t.Context(), Config{Worker: WorkerConfig{AckWait: time.Millisecond}}, zerolog.Nop(), nil)
	require.ErrorContains(t, err, "acknowledgement wait")
}
