package grpcserver

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"assay/api/internal/exchange"
)

// slowTransport delivers a message whose bytes arrive, and whose decompression begins, after a delay each.
type slowTransport struct {
	ctx context.Context
	grpc.ServerTransportStream
	message               bytes.Reader
	arrives, decompresses time.Duration
}

func (s *slowTransport) ReadMessageHeader(header []byte) error {
	_, err := s.message.Read(header)
	return err
}

func (s *slowTransport) Read(n int) (mem.BufferSlice, error) {
	select {
	case <-time.After(s.arrives):
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
	data := make([]byte, n)
	_, err := s.message.Read(data)
	return mem.BufferSlice{mem.SliceBuffer(data)}, err
}

func (s *slowTransport) RecvCompress() string {
	<-time.After(s.decompresses)
	return "gzip"
}

// callOf is a call with a context.
type callOf struct {
	grpc.ServerStream
	ctx context.Context
}

func (c callOf) Context() context.Context { return c.ctx }

// A client is too slow only while its message arrives, however long the service then decompresses it.
func TestSlowMessage(t *testing.T) {
	const grace = 10 * time.Second
	plain, err := proto.Marshal(wrapperspb.String("text"))
	require.NoError(t, err)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err = z.Write(plain)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	message := append(binary.BigEndian.AppendUint32([]byte{1}, uint32(packed.Len())), packed.Bytes()...)

	for name, c := range map[string]struct {
		arrives, decompresses time.Duration
		failure               string
	}{
		"slow client":  {3 * grace, 0, "arrives too slowly"},
		"slow service": {0, 3 * grace, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				call, cancel := context.WithCancel(t.Context())
				defer cancel()
				settings := &exchange.Settings{HeaderTimeout: grace, MinRate: 1 << 20}
				ctx, _ := exchange.Begin(call, exchange.Identity{}, "", nil, settings)
				transport := &slowTransport{ctx: ctx, message: *bytes.NewReader(message), arrives: c.arrives, decompresses: c.decompresses}
				s := &Server{cfg: Config{Settings: settings}}
				var got wrapperspb.StringValue
				err := s.Receive(ctx, callOf{ctx: grpc.NewContextWithServerTransportStream(ctx, transport)}, &got, 1<<20, Waiting{})
				if c.failure != "" {
					require.ErrorContains(t, err, c.failure)
					return
				}
				require.NoError(t, err)
				require.Equal(t, "text", got.GetValue())
			})
		})
	}
}
