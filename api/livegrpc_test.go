package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	rpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"assay/api"
	"assay/api/livegrpc/livepb"
	"assay/rewardmodel"
	"assay/rewardmodel/live"
)

func startLiveRPC(t *testing.T, m rewardmodel.Model, options ...option) *rpc {
	t.Helper()
	scorer := scorerOf(t, m, 0)
	sessions := newSessions(t, scorer, live.Limits{})
	return startRPC(t, scorer, append([]option{parts(func(p *api.Parts) { p.Live = sessions })}, options...)...)
}

func openCall(t *testing.T, ctx context.Context, s *rpc) grpc.ClientStream {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	t.Cleanup(cancel)
	call, err := s.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/assay.v1.Live/Session")
	require.NoError(t, err)
	return call
}

// sendLive sends messages, given as JSON.
func sendLive(t *testing.T, call grpc.ClientStream, messages ...string) {
	t.Helper()
	for _, m := range messages {
		var in livepb.LiveMessage
		require.NoError(t, protojson.Unmarshal([]byte(m), &in))
		if err := call.SendMsg(&in); err != nil {
			require.ErrorIs(t, err, io.EOF, "the call has failed")
		}
	}
}

// receiveLive returns the events until the end of the call, and its status.
func receiveLive(t *testing.T, call grpc.ClientStream) (events []liveMessage, err error) {
	t.Helper()
	for {
		var out livepb.LiveEvent
		if err := call.RecvMsg(&out); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return events, err
		}
		data, err := (protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: false}).Marshal(&out)
		require.NoError(t, err)
		var m liveMessage
		require.NoError(t, json.Unmarshal(data, &m))
		events = append(events, m)
	}
}

func TestLiveGRPC(t *testing.T) {
	s := startLiveRPC(t, &model{})
	for cut := range liveText {
		call := openCall(t, t.Context(), s)
		sendLive(t, call, `{"open":{"id":"r1","options":{"instances":true,"top_k":2,"aspects":false}}}`, textMessage(liveText[:cut]), textMessage(liveText[cut:]))
		if cut%2 == 0 {
			sendLive(t, call, `{"close":{}}`)
		}
		require.NoError(t, call.CloseSend())
		events, err := receiveLive(t, call)
		require.NoError(t, err)
		requireScored(t, events)
	}
}

// An event arrives before the end of the text.
func TestLiveGRPCIsFullDuplex(t *testing.T) {
	s := startLiveRPC(t, &model{})
	call := openCall(t, t.Context(), s)
	sendLive(t, call, `{"open":{}}`, textMessage(liveText))
	var out livepb.LiveEvent
	require.NoError(t, call.RecvMsg(&out))
	require.Equal(t, "The weather is fine today.", out.Utterance.Text)
	require.True(t, out.Compliant)
	require.NoError(t, call.CloseSend())
	events, err := receiveLive(t, call)
	require.NoError(t, err)
	require.NotNil(t, events[len(events)-1].Result)
}

func TestLiveGRPCFails(t *testing.T) {
	s := startLiveRPC(t, &model{}, config(func(c *api.Config) { c.MaxBody = 5000 }))
	for _, test := range []struct {
		name     string
		messages []string
		code     codes.Code
		says     string
	}{
		{"nothing", nil, codes.InvalidArgument, "open: is missing"},
		{"no open", []string{`{"text":"a"}`}, codes.InvalidArgument, "open: is missing"},
		{"empty", []string{`{}`}, codes.InvalidArgument, "none of open"},
		{"unknown option", []string{`{"open":{"options":{"reward":"x"}}}`}, codes.InvalidArgument, "open.options.reward"},
		{"unknown model", []string{`{"open":{"model":"v9"}}`}, codes.NotFound, "v9"},
		{"open twice", []string{`{"open":{}}`, `{"open":{}}`}, codes.InvalidArgument, "the session is open"},
		{"long", []string{`{"open":{}}`, textMessage(string(make([]byte, 6000)))}, codes.ResourceExhausted, "--max-body"},
	} {
		t.Run(test.name, func(t *testing.T) {
			call := openCall(t, t.Context(), s)
			sendLive(t, call, test.messages...)
			require.NoError(t, call.CloseSend())
			_, err := receiveLive(t, call)
			require.Equal(t, test.code, rpcstatus.Code(err), "%v", err)
			require.ErrorContains(t, err, test.says)
		})
	}
	t.Run("not enabled", func(t *testing.T) {
		_, err := receiveLive(t, openCall(t, t.Context(), startRPC(t, scorerOf(t, &model{}, 0))))
		require.Equal(t, codes.Unimplemented, rpcstatus.Code(err))
	})
	t.Run("no token", func(t *testing.T) {
		guarded := startLiveRPC(t, &model{}, parts(func(p *api.Parts) { p.Tokens = tokens(t) }))
		_, err := receiveLive(t, openCall(t, t.Context(), guarded))
		require.Equal(t, codes.Unauthenticated, rpcstatus.Code(err))
	})
}

// A call without a session ends soon, and when the service shuts down.
func TestLiveGRPCIsNotOpened(t *testing.T) {
	t.Run("in time", func(t *testing.T) {
		s := startLiveRPC(t, &model{}, config(func(c *api.Config) { c.HeaderTimeout = 50 * time.Millisecond }))
		_, err := receiveLive(t, openCall(t, t.Context(), s))
		requireStatus(t, err, codes.Unavailable, "open it again")
	})
	t.Run("before the shutdown", func(t *testing.T) {
		s := startLiveRPC(t, &model{}, config(func(c *api.Config) { c.HeaderTimeout = time.Hour }))
		call := openCall(t, t.Context(), s)
		require.Eventually(t, func() bool {
			const name = "assay_grpc_requests_in_flight"
			return testutil.GatherAndCompare(s.metrics, strings.NewReader("# HELP "+name+" gRPC calls in flight.\n# TYPE "+name+" gauge\n"+name+" 1\n"), name) == nil
		}, timeout, time.Millisecond)
		done := make(chan error, 1)
		go func() { done <- s.Shutdown(context.Background()) }()
		_, err := receiveLive(t, call)
		requireStatus(t, err, codes.Unavailable, "shutting down")
		require.NoError(t, await(t, done, "the shutdown"))
	})
}

// An open session may be idle for longer than a request takes.
// On a machine so slow that the opening does not arrive within the limit, it is doubled.
func TestLiveGRPCIsSlow(t *testing.T) {
	for limit := 50 * time.Millisecond; ; limit *= 2 {
		err := waitLonger(t, limit)
		if err == nil {
			return
		}
		require.Less(t, limit, 2*time.Second, "%v", err)
	}
}

// waitLonger sends text to a session that was idle for longer than its limits of a
// request. The error is that of a session that had ended.
func waitLonger(t *testing.T, limit time.Duration) error {
	t.Helper()
	s := startLiveRPC(t, &model{}, config(func(c *api.Config) { c.HeaderTimeout, c.RequestTimeout = limit, limit }))
	call := openCall(t, t.Context(), s)
	sendLive(t, call, `{"open":{}}`)
	_, err := call.Header() // the session is open
	if err != nil {
		return err
	}
	next := make(chan error, 1)
	go func() { next <- call.RecvMsg(&livepb.LiveEvent{}) }()
	select {
	case err := <-next:
		return fmt.Errorf("the session has ended: %w", err)
	case <-time.After(4 * limit):
	}
	sendLive(t, call, textMessage(liveText))
	return await(t, next, "an event")
}

// A client that leaves ends its session.
func TestLiveGRPCClientLeaves(t *testing.T) {
	s := startLiveRPC(t, &model{})
	ctx, leave := context.WithCancel(t.Context())
	call := openCall(t, ctx, s)
	sendLive(t, call, `{"open":{}}`, textMessage(liveText))
	require.NoError(t, call.RecvMsg(&livepb.LiveEvent{}))
	leave()
	entry := s.log.request(t)
	require.Equal(t, "assay.v1.Live/Session", entry["method"])
	require.Equal(t, "Canceled", entry["code"])
}
