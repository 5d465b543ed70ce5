package proxy

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func readAll(t testing.TB, r io.Reader) (out []serverEvent) {
	t.Helper()
	events := newEventReader(r, 1<<20)
	for {
		e, err := events.next()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		out = append(out, e)
	}
}

func TestEventReader(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []serverEvent
	}{
		"nothing":        {"", nil},
		"one":            {"data: a\n\n", []serverEvent{{kind: "", data: []byte("a")}}},
		"no space":       {"data:a\n\n", []serverEvent{{data: []byte("a")}}},
		"two spaces":     {"data:  a\n\n", []serverEvent{{data: []byte(" a")}}},
		"lines":          {"data: a\ndata\ndata: b\n\n", []serverEvent{{data: []byte("a\n\nb")}}},
		"kind":           {"event: k\nid: 1\nretry: 5\ndata: a\n\n", []serverEvent{{kind: "k", data: []byte("a")}}},
		"comment":        {": c\n\ndata: a\n\n", []serverEvent{{comment: true}, {data: []byte("a")}}},
		"CR LF":          {"data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", []serverEvent{{data: []byte("a\nb")}, {data: []byte("c")}}},
		"CR":             {"data: a\r\rdata: b\r\r", []serverEvent{{data: []byte("a")}, {data: []byte("b")}}},
		"end":            {"data: a", []serverEvent{{data: []byte("a")}}},
		"end of line":    {"data: a\n", []serverEvent{{data: []byte("a")}}},
		"empty data":     {"data:\n\n", []serverEvent{{data: []byte{}}}},
		"byte order":     {"\xef\xbb\xbfdata: a\n\n", []serverEvent{{data: []byte("a")}}},
		"colons":         {"data: a: b\n\n", []serverEvent{{data: []byte("a: b")}}},
		"done":           {"data: [DONE]\n\n", []serverEvent{{data: []byte("[DONE]")}}},
		"unknown fields": {"x: y\nzz\n\n", []serverEvent{{}}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(c.text), iotest.OneByteReader(strings.NewReader(c.text))} {
				got := slices.DeleteFunc(readAll(t, r), func(e serverEvent) bool { return string(e.raw) == "\n" })
				for i := range got {
					got[i].raw = nil
				}
				require.Equal(t, c.want, got)
			}
		})
	}
}

// An event is complete without the byte after it, even where its lines end with CR.
func TestEventReaderDoesNotWait(t *testing.T) {
	for _, text := range []string{"data: a\n\n", "data: a\r\n\r\n", "data: a\r\r"} {
		from, to := io.Pipe()
		go func() { _, _ = io.WriteString(to, text) }()
		e, err := newEventReader(from, 1<<20).next()
		require.NoError(t, err)
		require.Equal(t, "a", string(e.data))
		from.Close()
	}
}

func TestEventReaderLimit(t *testing.T) {
	_, err := newEventReader(strings.NewReader("data: "+strings.Repeat("x", 100)), 50).next()
	require.ErrorIs(t, err, errEventSize)
}

// content is what events say, without empty ones.
func content(events []serverEvent) (out []serverEvent) {
	for _, e := range events {
		e.raw = nil
		if e.comment || e.kind != "" || e.data != nil {
			out = append(out, e)
		}
	}
	return out
}

// The events do not depend on how the stream is cut, and their raw bytes are the stream.
func FuzzEventReader(f *testing.F) {
	for _, seed := range []string{"data: a\n\n", ": c\r\n\r\nevent: x\rdata:\rdata: b\r\r", "data", "\xef\xbb\xbfdata: [DONE]\n\n\n\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		if len(stream) > 1<<16 {
			return
		}
		got := readAll(t, bytes.NewReader(stream))
		require.Equal(t, content(got), content(readAll(t, iotest.OneByteReader(bytes.NewReader(stream)))))
		var raw []byte
		for _, e := range got {
			raw = append(raw, e.raw...)
		}
		require.Equal(t, string(stream), string(raw))
	})
}
