package blocks_test

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/blocks"
	"assay/queue/internal/js"
	"assay/queue/internal/jstest"
)

const name = "TABLE"

// stream is the stream in the directory of a server.
func stream(dir string) blocks.Stream {
	return blocks.Stream{Name: name, Dir: filepath.Join(dir, "jetstream", "$G", "streams", name, "msgs"), Subject: js.SubjectOf}
}

// write stores messages with a real server, and returns its directory: of the subjects a to h,
// b is replaced, d deleted, and f erased.
func write(t testing.TB) string {
	dir := t.TempDir()
	s := serve(t, dir)
	defer s.stop()
	_, err := s.jet.CreateStream(jstest.Context(t), jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}, MaxMsgsPerSubject: 1})
	require.NoError(t, err)
	for _, subject := range []string{"a", "b", "c", "d", "e", "f", "g", "b", "h"} {
		s.store(t, subject, "the text of "+subject)
	}
	table := s.table(t)
	require.NoError(t, table.DeleteMsg(jstest.Context(t), 4))
	require.NoError(t, table.SecureDeleteMsg(jstest.Context(t), 6))
	s.store(t, "i", "the last")
	return dir
}

type running struct {
	server *server.Server
	nc     *nats.Conn
	jet    jetstream.JetStream
}

func serve(t testing.TB, dir string) running {
	srv := jstest.Server(t, &server.Options{StoreDir: dir})
	nc, err := nats.Connect(srv.ClientURL())
	require.NoError(t, err)
	return running{srv, nc, jstest.JetStream(t, nc)}
}

func (r running) stop() {
	r.nc.Close()
	r.server.Shutdown()
	r.server.WaitForShutdown()
}

func (r running) table(t testing.TB) jetstream.Stream {
	table, err := r.jet.Stream(jstest.Context(t), name)
	require.NoError(t, err)
	return table
}

func (r running) store(t testing.TB, subject, text string) {
	msg := &nats.Msg{Subject: name + "." + subject, Data: []byte(text), Header: nats.Header{}}
	js.Seal(msg.Subject, msg.Header, msg.Data)
	_, err := r.jet.PublishMsg(jstest.Context(t), msg)
	require.NoError(t, err)
}

// read returns the messages of the stream, by their sequences.
func (r running) read(t testing.TB) map[uint64]string {
	ctx, cancel := context.WithTimeout(t.Context(), jstest.Timeout)
	defer cancel()
	table, out := r.table(t), map[uint64]string{}
	for seq := uint64(1); seq <= table.CachedInfo().State.LastSeq; seq++ {
		if msg, err := table.GetMsg(ctx, seq); err == nil {
			out[seq] = string(msg.Data)
		}
	}
	require.EqualValues(t, len(out), table.CachedInfo().State.Msgs)
	return out
}

// copied copies a directory and flips a bit of the block.
func copied(t testing.TB, dir string, at int) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(to, os.DirFS(dir)))
	path := filepath.Join(stream(to).Dir, "1.blk")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data[at] ^= 1
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return to
}

// offset is the place of a text in the block.
func offset(t testing.TB, dir, text string, last bool) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(stream(dir).Dir, "1.blk"))
	require.NoError(t, err)
	find := bytes.Index
	if last {
		find = bytes.LastIndex
	}
	at := find(data, []byte(text))
	require.Positive(t, at)
	return at
}

// A server that starts on the erased file has all messages but the damaged one, also if it
// has to read the file, and stores another one in its place.
func TestErase(t *testing.T) {
	t.Parallel()
	dir := write(t)
	intact := map[uint64]string{1: "the text of a", 3: "the text of c", 5: "the text of e", 7: "the text of g", 8: "the text of b", 9: "the text of h", 10: "the last"}
	for text, tc := range map[string]struct {
		last    bool
		damaged *blocks.Message
	}{
		"the text of a": {false, &blocks.Message{Sequence: 1, Subject: name + ".a"}}, // the first of the file
		"the text of c": {false, &blocks.Message{Sequence: 3, Subject: name + ".c"}},
		"the text of b": {true, &blocks.Message{Sequence: 8, Subject: name + ".b"}},  // had replaced another
		"the text of e": {false, &blocks.Message{Sequence: 5, Subject: name + ".e"}}, // between a deleted and an erased one
		"the last":      {true, nil},                                                 // nothing proves its length
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			dir := copied(t, dir, offset(t, dir, text, tc.last))
			want := maps.Clone(intact)
			found, err := stream(dir).Damaged()
			require.NoError(t, err)
			erased, err := stream(dir).Erase()
			require.NoError(t, err)
			require.Equal(t, found, erased)
			if tc.damaged == nil {
				require.Empty(t, erased)
				return
			}
			require.Equal(t, []blocks.Message{*tc.damaged}, erased)
			delete(want, tc.damaged.Sequence)
			erased, err = stream(dir).Erase()
			require.NoError(t, err)
			require.Empty(t, erased)
			s := serve(t, dir)
			require.Equal(t, want, s.read(t))
			subject := tc.damaged.Subject[len(name)+1:]
			s.store(t, subject, "again")
			want[11] = "again"
			require.Equal(t, want, s.read(t))
			s.stop()
			s = serve(t, dir)
			defer s.stop()
			require.Equal(t, want, s.read(t))
		})
	}
}

// If there is no space for a block, the stream is as it was.
func TestEraseFails(t *testing.T) {
	dir := write(t)
	dir = copied(t, dir, offset(t, dir, "the text of c", false))
	s := stream(dir)
	require.NoError(t, os.Mkdir(filepath.Join(s.Dir, "1.blk.erased"), 0o700))
	before := files(t, s.Dir)
	_, err := s.Erase()
	require.Error(t, err)
	require.Equal(t, before, files(t, s.Dir))
	require.NoError(t, os.Remove(filepath.Join(s.Dir, "1.blk.erased")))
	erased, err := s.Erase()
	require.NoError(t, err)
	require.Len(t, erased, 1)
}

// files returns the content of the files of a directory.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if data, err := os.ReadFile(filepath.Join(dir, e.Name())); err == nil {
			out[e.Name()] = string(data)
		}
	}
	return out
}

func TestNothingToErase(t *testing.T) {
	dir := write(t)
	before, err := os.ReadFile(filepath.Join(stream(dir).Dir, "1.blk"))
	require.NoError(t, err)
	for _, s := range []blocks.Stream{stream(dir), stream(t.TempDir())} { // the latter does not exist
		erased, err := s.Erase()
		require.NoError(t, err)
		require.Empty(t, erased)
	}
	after, err := os.ReadFile(filepath.Join(stream(dir).Dir, "1.blk"))
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// The subject of the message is certain, or it stays.
func TestUncertainSubject(t *testing.T) {
	dir := write(t)
	dir = copied(t, dir, offset(t, dir, "the text of c", false))
	s := stream(dir)
	s.Subject = func(subject string, body []byte) (string, bool) {
		require.Equal(t, name+".c", subject)
		require.Contains(t, string(body), subject)
		return subject, false
	}
	erased, err := s.Erase()
	require.NoError(t, err)
	require.Empty(t, erased)
}
