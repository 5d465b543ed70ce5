package livetest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	rpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"assay/api/livegrpc/livepb"
	"assay/queue"
)

type socketSession struct {
	*dialer
	ctx  context.Context
	conn *websocket.Conn
	err  error // why there is no connection
}

func openSocket(t *testing.T, s *service) session {
	client, dialed := s.client(t, func(p *http.Protocols) { p.SetHTTP1(true) })
	ctx, leave := context.WithTimeout(context.Background(), deadline)
	conn, _, err := websocket.Dial(ctx, s.url("/v1/live"), &websocket.DialOptions{HTTPClient: client}) //nolint:bodyclose // hijacked
	t.Cleanup(leave)
	if err == nil {
		conn.SetReadLimit(-1)
		t.Cleanup(func() { leave(); _ = conn.CloseNow() })
	}
	return &socketSession{dialed, ctx, conn, err}
}

func (w *socketSession) send(message string) error {
	if w.err != nil {
		return w.err
	}
	return w.conn.Write(w.ctx, websocket.MessageText, []byte(message))
}

func (w *socketSession) sendBytes(text string) error { return w.send(quoted(text)) }

func (w *socketSession) end() error { return w.send(`{"close":{}}`) }

func (w *socketSession) receive() (e event, err error) {
	if w.err != nil {
		return e, w.err
	}
	_, message, err := w.conn.Read(w.ctx)
	if err != nil {
		return e, err
	}
	return e, json.Unmarshal(message, &e)
}

type callSession struct {
	*dialer
	call  grpc.ClientStream
	leave context.CancelFunc
}

func openCall(t *testing.T, s *service) session {
	dialed := &dialer{}
	conn, err := grpc.NewClient("passthrough:///"+s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return dialed.dial(ctx, "tcp", address) }))
	require.NoError(t, err)
	ctx, leave := context.WithTimeout(context.Background(), deadline)
	call, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/assay.v1.Live/Session", grpc.ForceCodec(codec{}))
	require.NoError(t, err)
	t.Cleanup(func() { leave(); _ = conn.Close() })
	return &callSession{dialed, call, leave}
}

func (c *callSession) send(message string) error {
	var in livepb.LiveMessage
	if err := protojson.Unmarshal([]byte(message), &in); err != nil {
		return err
	}
	return c.call.SendMsg(&in)
}

// sendBytes encodes the field text itself, since the library checks it.
func (c *callSession) sendBytes(text string) error {
	return c.call.SendMsg(append([]byte{2<<3 | 2, byte(len(text))}, text...)) // up to 127 bytes
}

// codec takes messages that are encoded.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(message any) ([]byte, error) {
	if encoded, ok := message.([]byte); ok {
		return encoded, nil
	}
	return proto.Marshal(message.(proto.Message))
}

func (codec) Unmarshal(data []byte, message any) error {
	return proto.Unmarshal(data, message.(proto.Message))
}

func (c *callSession) end() error { return c.call.CloseSend() }

// reset ends the stream of the call.
func (c *callSession) reset() { c.leave() }

func (c *callSession) receive() (e event, err error) {
	var out livepb.LiveEvent
	err = c.call.RecvMsg(&out)
	if status, ok := rpcstatus.FromError(err); ok && err != nil && !errors.Is(err, io.EOF) {
		message := map[string]any{"error": map[string]any{"code": status.Code().String(), "message": status.Message()}}
		data, err := json.Marshal(message)
		return e, errors.Join(err, json.Unmarshal(data, &e))
	}
	if err != nil {
		return e, err
	}
	data, err := (protojson.MarshalOptions{UseProtoNames: true}).Marshal(&out)
	return e, errors.Join(err, json.Unmarshal(data, &e))
}

// queueSession waits for the reply to each message, which has the events. To receive
// without one sends an empty text.
type queueSession struct {
	conn    *nats.Conn
	subject string
	arrived []event
}

func openQueue(t *testing.T, s *service) session {
	conn, err := nats.Connect(s.queue.URL())
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return &queueSession{conn: conn, subject: queue.SubjectLive}
}

func (q *queueSession) send(message string) error {
	reply, err := q.conn.Request(q.subject, []byte(message), deadline)
	if err != nil {
		return err
	}
	failed := reply.Header.Get(micro.ErrorCodeHeader) != ""
	if q.subject == queue.SubjectLive && !failed {
		var opened struct{ Subject string }
		defer func() { q.subject = opened.Subject }()
		return json.Unmarshal(reply.Data, &opened)
	}
	for line := range strings.Lines(string(reply.Data)) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return err
		}
		q.arrived = append(q.arrived, e)
	}
	if failed {
		return errors.New(reply.Header.Get(micro.ErrorHeader))
	}
	return nil
}

func (q *queueSession) sendBytes(text string) error { return q.send(quoted(text)) }

func (q *queueSession) end() error { return q.send(`{"close":{}}`) }

func (q *queueSession) receive() (event, error) {
	if len(q.arrived) == 0 {
		if err := q.send(`{"text":""}`); err != nil && len(q.arrived) == 0 {
			return event{}, err
		}
	}
	if len(q.arrived) == 0 {
		return event{}, io.EOF
	}
	e := q.arrived[0]
	q.arrived = q.arrived[1:]
	return e, nil
}

func (q *queueSession) cut() { q.conn.Close() }
