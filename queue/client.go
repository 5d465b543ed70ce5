package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"assay/rewardmodel"
	"assay/rewardmodel/wire"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// DefaultClientTimeout bounds a request whose context has no deadline.
const DefaultClientTimeout = time.Minute

// Client scores over NATS, with any replica of the micro service. It implements the same
// interface as a local scorer.
type Client struct{ nc *nats.Conn }

// NewClient returns a client on nc, which the caller closes.
func NewClient(nc *nats.Conn) *Client { return &Client{nc} }

// Score sends one request and waits for the reply, until ctx ends or for
// DefaultClientTimeout. An error of the service is an *Error, which wraps the error that a
// local scorer would return. If no service runs, the error wraps nats.ErrNoResponders.
func (c *Client) Score(ctx context.Context, req rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, DefaultClientTimeout)
		defer cancel()
	}
	deadline, _ := ctx.Deadline()
	body, err := wire.AppendRequest(nil, req)
	if err != nil {
		return rewardmodel.ScoreResponse{}, err
	}
	msg := &nats.Msg{Subject: SubjectScore, Data: body, Header: nats.Header{}}
	msg.Header.Set(HeaderTimeout, max(time.Until(deadline), time.Millisecond).String())
	if req.Priority != "" {
		msg.Header.Set(HeaderPriority, string(req.Priority))
	}
	reply, err := c.nc.RequestMsgWithContext(ctx, msg)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return rewardmodel.ScoreResponse{}, fmt.Errorf("no service on %s: %w; check the address of the NATS server, and that the service runs there and is ready", SubjectScore, err)
	case errors.Is(err, nats.ErrMaxPayload):
		return rewardmodel.ScoreResponse{}, tooLarge("the request", int64(len(body)), c.nc.MaxPayload(), "send fewer responses per request, or use HTTP")
	case err != nil:
		return rewardmodel.ScoreResponse{}, fmt.Errorf("request on %s: %w", SubjectScore, err)
	}
	if code := reply.Header.Get(micro.ErrorCodeHeader); code != "" {
		n, _ := strconv.Atoi(code)                                     // 0 if it is not a number
		seconds, _ := strconv.Atoi(reply.Header.Get(HeaderRetryAfter)) // likewise
		return rewardmodel.ScoreResponse{}, parseError(n, reply.Header.Get(micro.ErrorHeader), reply.Data,
			time.Duration(min(seconds, math.MaxInt32))*time.Second)
	}
	var answer rewardmodel.ScoreResponse
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return rewardmodel.ScoreResponse{}, fmt.Errorf("invalid reply on %s: %w", SubjectScore, err)
	}
	return answer, nil
}
