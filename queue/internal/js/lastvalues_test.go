package js_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/js"
	"assay/queue/internal/jstest"
)

const valuesStream = "KV_VALUES"

// openValues creates the stream if it is missing.
func openValues(t *testing.T, jet jetstream.JetStream) (*js.LastValues, jetstream.Stream) {
	t.Helper()
	stream, err := jet.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: valuesStream, Subjects: []string{"values.>"}, MaxMsgsPerSubject: 64})
	require.NoError(t, err)
	return js.NewLastValues(jet, stream, func(s string) string { return s }, nil, zerolog.Nop()), stream
}

func putValue(t *testing.T, jet jetstream.JetStream, subject, value string) {
	t.Helper()
	msg := &nats.Msg{Subject: subject, Data: []byte(value), Header: nats.Header{}}
	js.Seal(subject, msg.Header, msg.Data)
	_, err := jet.PublishMsg(t.Context(), msg)
	require.NoError(t, err)
}

// flipInFiles flips one bit of the only place where the files of a directory have text.
func flipInFiles(t *testing.T, dir, text string) {
	t.Helper()
	found := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		at := bytes.Index(data, []byte(text))
		if at < 0 {
			return nil
		}
		found++
		data[at] ^= 1
		return os.WriteFile(path, data, 0o600)
	}))
	require.Equal(t, 1, found)
}

// storedDuringRead stores a first value just after a read has found none.
type storedDuringRead struct {
	jetstream.Stream
	store func()
}

func (s *storedDuringRead) GetLastMsgForSubject(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	msg, err := s.Stream.GetLastMsgForSubject(ctx, subject)
	if s.store != nil {
		s.store()
		s.store = nil
	}
	return msg, err
}

func TestFirstValueIsStoredDuringARead(t *testing.T) {
	t.Parallel()
	_, jet := jstest.Connect(t, &server.Options{})
	_, stream := openValues(t, jet)
	stream = &storedDuringRead{stream, func() { putValue(t, jet, "values.a", "the first value") }}
	values := js.NewLastValues(jet, stream, func(s string) string { return s }, nil, zerolog.Nop())
	msg, err := values.Read(jstest.Context(t), "values.a")
	require.NoError(t, err)
	require.Equal(t, "the first value", string(msg.Data))
}

// A value that the server cannot read is stored again by a process that knows it, and
// is an error for others.
func TestValueThatTheServerCannotRead(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	opts := &server.Options{StoreDir: t.TempDir()}
	srv := jstest.Server(t, opts)
	nc, err := nats.Connect(srv.ClientURL())
	require.NoError(t, err)
	values, _ := openValues(t, jstest.JetStream(t, nc))
	putValue(t, jstest.JetStream(t, nc), "values.a", "the earlier value")
	putValue(t, jstest.JetStream(t, nc), "values.a", "the stored value")
	putValue(t, jstest.JetStream(t, nc), "values.b", "another")
	before, err := values.Read(ctx, "values.a")
	require.NoError(t, err)
	nc.Close()
	srv.Shutdown()
	srv.WaitForShutdown()
	flipInFiles(t, opts.StoreDir, "the stored value")

	_, jet := jstest.Connect(t, &server.Options{StoreDir: opts.StoreDir})
	forgetful, stream := openValues(t, jet)
	_, err = stream.GetMsg(ctx, before.Sequence)
	require.ErrorIs(t, err, jetstream.ErrMsgNotFound)
	_, err = forgetful.Read(ctx, "values.a")
	require.ErrorIs(t, err, js.ErrDamaged)

	values, _ = openValues(t, jet)
	values.Remember(before)
	restored, err := values.Read(ctx, "values.a")
	require.NoError(t, err)
	require.Equal(t, "the stored value", string(restored.Data))
	require.Greater(t, restored.Sequence, before.Sequence)
	restored, err = forgetful.Read(ctx, "values.a")
	require.NoError(t, err)
	require.Equal(t, "the stored value", string(restored.Data))
}
