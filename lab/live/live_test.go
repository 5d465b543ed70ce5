package live

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/lab/labtest"
	"assay/lab/load"
	"assay/rewardmodel/bag"
	"assay/sidecar/cli"
	"assay/sidecar/processtest"
)

func TestTokensOf(t *testing.T) {
	for _, text := range []string{"", " ", "a", "One two.\n\nThree é  \t", "\nx"} {
		require.Equal(t, text, strings.Join(tokensOf(text), ""))
	}
	require.Equal(t, []string{"One", " two.", "\n\nThree", " "}, tokensOf("One two.\n\nThree "))
}

func TestBenchLiveStops(t *testing.T) {
	file := filepath.Join(t.TempDir(), "set.jsonl")
	bags := `{"id":"a","label":"violation","response":"Hello there. You fool. Bye.","spans":[[17,21]]}
{"id":"b","label":"compliant","response":"The film was long. I liked it."}
{"id":"c","label":"violation","response":"One sentence."}
`
	require.NoError(t, os.WriteFile(file, []byte(bags), 0o600))
	stdout, stderr, code := run(t, "", "live", "stops", "--model", processtest.TinyModel(t, nil), "--precision", "fp32", "--threads", "1", file)
	require.Equal(t, cli.ExitDone, code, stderr)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	require.Len(t, lines, 1+len(stopMethods), stdout)
	for i, method := range stopMethods {
		require.Equal(t, []string{"set", "2", "2", "1", method}, strings.Fields(lines[1+i])[:5])
	}
}

// A response of three sentences of 10 characters, of which the second violates.
func TestStopRow(t *testing.T) {
	violating := func(read, decided int) stops {
		s := stops{Bag: bag.Bag{Label: bag.Violation, Spans: [][2]int{{15, 18}}}, length: 30, spans: [][2]int{{0, 10}, {11, 20}, {21, 30}}}
		s.locate()
		s.by[0] = stopped{decided > 0, read, decided}
		return s
	}
	harmless := stops{Bag: bag.Bag{Label: bag.Compliant}, length: 30}
	stoppedHarmless := harmless
	stoppedHarmless.by[0] = stopped{true, 3, 3}
	unknown := stops{Bag: bag.Bag{Label: bag.Violation}, length: 30, spans: [][2]int{{0, 10}, {11, 30}}}
	for name, c := range map[string]struct {
		all  []stops
		want string
	}{
		"in the sentence": {[]stops{violating(24, 20)}, "s 1 1 0 stop 100.0 0.0 100.0 0.0 0.0 - 80.0 24 4"},
		"before":          {[]stops{violating(12, 10)}, "s 1 1 0 stop 100.0 100.0 0.0 0.0 0.0 - 40.0 12 -8"},
		"next":            {[]stops{violating(30, 21)}, "s 1 1 0 stop 100.0 0.0 0.0 100.0 0.0 - 100.0 30 10"},
		"not stopped":     {[]stops{violating(0, 0), unknown}, "s 2 1 0 stop 0.0 0.0 0.0 0.0 0.0 - - - -"},
		"false stops":     {[]stops{harmless, stoppedHarmless}, "s 0 0 2 stop - - - - - 50.0 - - -"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, strings.Join(strings.Fields(stopRow("s", "stop", 0, c.all)), " "))
		})
	}
}

func TestWrittenText(t *testing.T) {
	text, err := newWrittenText(t.Context(), "One two. Three four. Five")
	require.NoError(t, err)
	require.Equal(t, 2, text.completes(8), "the next word completes the first sentence")
	require.Equal(t, 4, text.completes(20))
	require.Equal(t, 5, text.completes(25), "the end of the text completes the last one")
}

func TestBenchLiveLatency(t *testing.T) {
	stdout, stderr, code := run(t, "", "live", "latency", "--work", labtest.Texts(t), "--model", processtest.TinyModel(t, nil), "--precision", "fp32", "--threads", "1",
		"--streams", "2", "--rate", "200", "--seconds", "500ms", "--warm", "100ms", "--batch", "4")
	require.Equal(t, cli.ExitDone, code, stderr)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	require.Len(t, lines, 4, stdout)
	for i, name := range []string{"0 yes", "2 no", "2 yes"} {
		require.Equal(t, strings.Fields(name), strings.Fields(lines[1+i])[:2])
	}
	sentences, err := strconv.ParseFloat(strings.Fields(lines[2])[2], 64)
	require.NoError(t, err)
	require.Positive(t, sentences)
}

func TestBenchLiveRejectsInvalidFlags(t *testing.T) {
	for says, args := range map[string][]string{
		"--overlap": {"stops", "--overlap", "200", "set.jsonl"},
		"no such":   {"stops", "nowhere.jsonl"},
		"--rate":    {"latency", "--rate", "0"},
		"--work":    {"latency", "--work", "nowhere.jsonl"},
		"--hold":    {"flood", "--hold", "0s"},
	} {
		_, stderr, code := run(t, "", append([]string{"live"}, args...)...)
		require.Equal(t, cli.ExitUsage, code)
		require.Contains(t, stderr, says)
	}
}

// The service has room for four sessions in addition to those of the honest clients.
func TestBenchLiveFlood(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it needs /proc")
	}
	t.Setenv("ASSAY_LIVE_SESSIONS", "6")
	stdout, stderr, code := run(t, "", "live", "flood", "--work", labtest.Texts(t), "--model", processtest.TinyModel(t, nil), "--precision", "fp32", "--threads", "1",
		"--sessions", "20", "--honest", "2", "--baseline", "300ms", "--hold", "300ms")
	require.Equal(t, cli.ExitDone, code, stderr)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	require.Equal(t, []string{
		"4 sessions opened, 16 refused with 503 (Retry-After up to 1s; 0 without), 0 silent.",
		"2 of 2 honest sessions have the result of /v1/score.",
	}, lines[:2], stdout)
	for i, want := range []struct{ name, sessions string }{{"before", "2"}, {"peak", "6"}, {"after", "2"}} {
		row := strings.Fields(lines[3+i])
		require.Equal(t, []string{want.name, want.sessions}, row[:2], stdout)
		require.Equal(t, row[5], row[6], "all are right")
		require.NotEqual(t, "0", row[6])
	}
}

func TestFloodResult(t *testing.T) {
	r := floodResult{failed: map[string]int{}}
	r.add(nil)
	require.NoError(t, r.err())
	for _, err := range []error{
		&load.StatusError{Code: 503, RetryAfter: 2 * time.Second}, &load.StatusError{Code: 503}, &load.StatusError{Code: 429, Status: "429 Too Many Requests"},
		io.ErrUnexpectedEOF,
	} {
		r.add(err)
	}
	require.Equal(t, "1 sessions opened, 2 refused with 503 (Retry-After up to 2s; 1 without), 1 silent.\n1: 429 Too Many Requests\n1: unexpected EOF\n", r.String())
	require.ErrorIs(t, r.err(), errSilent)
}
