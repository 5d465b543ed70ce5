package grpcserver

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/mem"
)

// A connection beyond the limit is closed; one that ends makes room.
func TestConnectionsAreLimited(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := (&connections{limit: 1}).listen(inner)
	accepted := make(chan net.Conn)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", inner.Addr().String())
		require.NoError(t, err)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(20*time.Second)))
		return conn
	}
	first := dial()
	defer first.Close()
	held := <-accepted
	second := dial()
	defer second.Close()
	_, err = second.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "it is closed")
	require.NoError(t, held.Close())
	third := dial()
	defer third.Close()
	require.NoError(t, (<-accepted).Close())
	require.NoError(t, l.Close())
	<-done
}

// steps is a transport that returns as many bytes as requested, and records the maximum.
type steps struct{ most int }

func (s *steps) ReadMessageHeader(header []byte) error {
	copy(header, []byte{0, 0, 0x10, 0, 0}) // 1 MiB
	return nil
}

func (s *steps) Read(n int) (mem.BufferSlice, error) {
	s.most = max(s.most, n)
	return mem.BufferSlice{mem.SliceBuffer(make([]byte, n))}, nil
}

func (s *steps) RecvCompress() string { return "" }

// The transport keeps a buffer for each frame of a step, however small, so that
// a step of frames of a byte each stays within what is charged.
func TestStepsAreSmall(t *testing.T) {
	transport := &steps{}
	data, err := (&incoming{limit: 2 << 20}).read(transport)
	require.NoError(t, err)
	require.Len(t, data, 1<<20)
	require.LessOrEqual(t, transport.most, 4<<10)
}
