package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/api"
	"assay/rewardmodel"
	"assay/rewardmodel/live"
)

// liveScorer opens sessions of one scorer.
type liveScorer struct{ *rewardmodel.Scorer }

func (s liveScorer) Live(ctx context.Context, r rewardmodel.LiveRequest) (*rewardmodel.Live, func(), error) {
	session, err := s.Scorer.Live(ctx, r)
	return session, func() {}, err
}

func newSessions(t *testing.T, scorer *rewardmodel.Scorer, limits live.Limits) *live.Sessions {
	t.Helper()
	sessions := live.New(liveScorer{scorer}, limits)
	t.Cleanup(sessions.Close)
	return sessions
}

// startLive is start, for a service with live sessions.
func startLive(t *testing.T, m rewardmodel.Model, limits live.Limits, options ...option) *service {
	t.Helper()
	scorer := scorerOf(t, m, 0)
	sessions := newSessions(t, scorer, limits)
	return start(t, scorer, append([]option{parts(func(p *api.Parts) { p.Live = sessions })}, options...)...)
}

// liveText has a sentence that violates, between two that do not.
const liveText = "The weather is fine today. This one is #bad, dear reader! And so it ends here, in peace."

// liveMessage is an event that the service sends.
type liveMessage struct {
	Utterance *struct {
		Index, Start, End int
		Text              string
		Violation         float64
	}
	Violation, Reward float64
	Compliant, Stop   bool
	Reset             *struct{}
	Result            *struct {
		ID        string
		Reward    float64
		Compliant bool
		Witness   struct{ Text string }
		Instances []any
	}
	Model *struct{ Name, Version string }
	Error *struct{ Code, Message, Field string }
}

// parseLive validates an event against the OpenAPI document.
func parseLive(t *testing.T, line string) liveMessage {
	t.Helper()
	var m liveMessage
	require.NoError(t, json.Unmarshal([]byte(line), &m), "%s", line)
	var value map[string]any
	require.NoError(t, json.Unmarshal([]byte(line), &value))
	require.NoError(t, document(t).Components.Schemas["LiveEvent"].Value.VisitJSON(value), "%s", line)
	return m
}

// liveMessages parses the lines of a response.
func liveMessages(t *testing.T, body []byte) (messages []liveMessage) {
	t.Helper()
	for line := range strings.Lines(string(body)) {
		messages = append(messages, parseLive(t, line))
	}
	return messages
}

// textMessage is the message with a piece of text.
func textMessage(piece string) string {
	data, _ := json.Marshal(map[string]string{"text": piece})
	return string(data) + "\n"
}

// requireScored checks the events of liveText.
func requireScored(t *testing.T, messages []liveMessage) {
	t.Helper()
	require.NotEmpty(t, messages)
	last := messages[len(messages)-1]
	require.Nil(t, last.Error)
	require.NotNil(t, last.Result)
	require.False(t, last.Result.Compliant)
	require.Contains(t, last.Result.Witness.Text, "#bad")
	require.Equal(t, "v7", last.Model.Version)
	var texts []string
	stop := false
	for i, m := range messages[:len(messages)-1] {
		require.NotNil(t, m.Utterance)
		require.Equal(t, i, m.Utterance.Index)
		texts = append(texts, liveText[m.Utterance.Start:m.Utterance.End])
		require.False(t, stop && !m.Stop, "stop is withdrawn")
		stop = m.Stop
	}
	require.True(t, stop)
	require.Len(t, texts, len(last.Result.Instances))
	require.Equal(t, strings.ReplaceAll(liveText, " ", ""), strings.ReplaceAll(strings.Join(texts, ""), " ", ""))
}

// clients are an HTTP client for each protocol.
func clients(t *testing.T) map[string]*http.Client {
	t.Helper()
	two := &http.Transport{Protocols: new(http.Protocols)}
	two.Protocols.SetUnencryptedHTTP2(true)
	one := &http.Transport{}
	t.Cleanup(one.CloseIdleConnections)
	t.Cleanup(two.CloseIdleConnections)
	return map[string]*http.Client{"HTTP/1.1": {Transport: one}, "HTTP/2.0": {Transport: two}}
}

// dialog is a request whose body is written while its response is read.
type dialog struct {
	t        *testing.T
	to       *io.PipeWriter
	response *http.Response
	lines    *bufio.Reader
}

func openDialog(t *testing.T, client *http.Client, s *service, first string, headers ...string) *dialog {
	t.Helper()
	from, to := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.addr+"/v1/live", from)
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/x-ndjson")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	go func() { _, _ = io.WriteString(to, first) }() // ends when the body is read or closed
	response, err := client.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = to.Close(), response.Body.Close() })
	return &dialog{t, to, response, bufio.NewReader(response.Body)}
}

func (d *dialog) send(message string) {
	d.t.Helper()
	_, err := io.WriteString(d.to, message)
	require.NoError(d.t, err)
}

func (d *dialog) next() liveMessage {
	d.t.Helper()
	line, err := d.lines.ReadString('\n')
	require.NoError(d.t, err, "%s", line)
	return parseLive(d.t, line)
}

func (d *dialog) rest() []byte {
	d.t.Helper()
	body, err := io.ReadAll(d.lines)
	require.NoError(d.t, err)
	return body
}

// A response is open for as long as its request, over both versions of HTTP.
func TestLiveIsFullDuplex(t *testing.T) {
	s := startLive(t, &model{}, live.Limits{})
	for protocol, client := range clients(t) {
		for _, closing := range []string{"", `{"close":{}}`} {
			t.Run(protocol+closing, func(t *testing.T) {
				d := openDialog(t, client, s, `{"open":{"id":"r1"}}`+"\n")
				require.Equal(t, 200, d.response.StatusCode)
				require.Equal(t, protocol, d.response.Proto)
				require.Equal(t, "application/x-ndjson", d.response.Header.Get("Content-Type"))
				for piece := range strings.SplitAfterSeq(liveText, " ") {
					d.send(textMessage(piece))
				}
				d.send(closing)
				require.NoError(t, d.to.Close())
				messages := liveMessages(t, d.rest())
				requireScored(t, messages)
				require.Equal(t, "r1", messages[len(messages)-1].Result.ID)
			})
		}
	}
}

// One request after the other on a connection, half duplex: the client sends
// everything before it reads, in pieces of every length.
func TestLiveIsHalfDuplex(t *testing.T) {
	s := startLive(t, &model{}, live.Limits{})
	for protocol, client := range clients(t) {
		t.Run(protocol, func(t *testing.T) {
			for cut := range liveText {
				body := "{\"open\":{}}\n\n" + textMessage(liveText[:cut]) + textMessage(liveText[cut:])
				response, err := client.Post("http://"+s.addr+"/v1/live", "application/json", strings.NewReader(strings.TrimSpace(body)))
				require.NoError(t, err)
				content, err := io.ReadAll(response.Body)
				require.NoError(t, err)
				require.NoError(t, response.Body.Close())
				requireScored(t, liveMessages(t, content))
			}
		})
	}
}

// A body may be cut anywhere: into packets, and at its end.
func TestLiveBodyIsCutAnywhere(t *testing.T) {
	s := startLive(t, &model{}, live.Limits{})
	body := "{\"open\":{\"prompt\":\"Wie geht's?\"}}\r\n" + textMessage(liveText) + "{\"close\":{}}\n"
	client := clients(t)["HTTP/1.1"]
	for cut := range body {
		from, to := io.Pipe()
		go func() {
			_, _ = io.WriteString(to, body[:cut])
			_, _ = io.WriteString(to, body[cut:])
			_ = to.Close()
		}()
		response, err := client.Post("http://"+s.addr+"/v1/live", "application/x-ndjson", from)
		require.NoError(t, err)
		content, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		requireScored(t, liveMessages(t, content))
	}
	for cut := range body {
		a := s.do(t, "POST", "/v1/live", strings.NewReader(body[:cut]), "Content-Type", "application/x-ndjson")
		opened := strings.Index(body, "}}") + 2
		if cut < opened {
			require.Equal(t, 400, a.StatusCode, "%s", a.body)
			continue
		}
		messages := liveMessages(t, a.body)
		last := messages[len(messages)-1]
		require.True(t, last.Result != nil || last.Error.Code == "invalid", "%d: %s", cut, a.body)
	}
}

func TestLiveAsServerSentEvents(t *testing.T) {
	s := startLive(t, &model{}, live.Limits{})
	a := s.do(t, "POST", "/v1/live", strings.NewReader("{\"open\":{}}\n"+textMessage(liveText)), "Accept", "text/event-stream;q=0.9, */*")
	require.Equal(t, "text/event-stream", a.Header.Get("Content-Type"))
	var messages []liveMessage
	for event := range strings.SplitSeq(strings.TrimSuffix(string(a.body), "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(event, "data: ")
		require.True(t, ok, "%q", event)
		require.NotContains(t, data, "\n")
		messages = append(messages, parseLive(t, data))
	}
	requireScored(t, messages)
}

// A client of HTTP/1.0, such as some proxies, gets the response after its
// request, and the status of a failure.
func TestLiveOverHTTP10(t *testing.T) {
	s := startLive(t, &model{}, live.Limits{})
	post := func(body string) answer {
		conn, err := net.Dial("tcp", s.addr)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		fmt.Fprintf(conn, "POST /v1/live HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		content, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return answer{response, content}
	}
	requireScored(t, liveMessages(t, post("{\"open\":{}}\n"+textMessage(liveText)).body))
	require.Equal(t, 400, post("{\"open\":{}}\n{\"text\":7}").StatusCode)
}

func TestLiveRefusals(t *testing.T) {
	s := startLive(t, &model{}, live.Limits{}, config(func(c *api.Config) { c.MaxBody = 1000 }))
	long := textMessage(strings.Repeat("x", 1000))
	for _, test := range []struct {
		name, body  string
		headers     []string
		status      int
		code, field string
	}{
		{"nothing", "", nil, 400, "invalid", "open"},
		{"no open", textMessage("a"), nil, 400, "invalid", "open"},
		{"no JSON", "open", nil, 400, "invalid", ""},
		{"unknown option", `{"open":{"options":{"rewards":"raw"}}}`, nil, 400, "invalid", "open.options.rewards"},
		{"unknown model", `{"open":{"model":"v9"}}`, nil, 404, "not_found", "model"},
		{"long line", long, nil, 413, "too_large", ""},
		{"form", "a=b", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "unsupported_media_type", "Content-Type"},
		{"compressed", "x", []string{"Content-Encoding", "gzip"}, 415, "unsupported_media_type", "Content-Encoding"},
		{"foreign page", `{"open":{}}`, []string{"Origin", "http://evil.example"}, 403, "forbidden_origin", "Origin"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := s.do(t, "POST", "/v1/live", strings.NewReader(test.body), test.headers...)
			require.Equal(t, test.status, a.StatusCode, "%s", a.body)
			code, field, _ := a.failure(t)
			require.Equal(t, test.code, code)
			require.Equal(t, test.field, field)
		})
	}
	for name, second := range map[string]string{"open twice": `{"open":{}}`, "no message": `{}`, "long line": long} {
		t.Run(name+" after the open", func(t *testing.T) {
			a := s.do(t, "POST", "/v1/live", strings.NewReader("{\"open\":{}}\n"+second))
			require.Equal(t, 200, a.StatusCode)
			messages := liveMessages(t, a.body)
			require.Len(t, messages, 1)
			require.NotEmpty(t, messages[0].Error.Message)
		})
	}
	t.Run("not enabled", func(t *testing.T) {
		a := start(t, scorerOf(t, &model{}, 0)).do(t, "POST", "/v1/live", strings.NewReader(`{"open":{}}`))
		require.Equal(t, 501, a.StatusCode)
	})
}

// A client that sends over time learns immediately that it is refused.
func TestLiveIsRefusedBeforeTheEnd(t *testing.T) {
	patient := config(func(c *api.Config) { c.HeaderTimeout = time.Hour })
	s := startLive(t, &model{}, live.Limits{}, patient, parts(func(p *api.Parts) { p.Tokens = tokens(t) }))
	for protocol, client := range clients(t) {
		t.Run(protocol, func(t *testing.T) {
			d := openDialog(t, client, s, "{\"open\":{}}\n")
			require.Equal(t, 401, d.response.StatusCode)
			d = openDialog(t, client, s, "{\"close\":{}}\n", "Authorization", "Bearer "+scoreToken)
			require.Equal(t, 400, d.response.StatusCode)
		})
	}
}

// A failed session ends with an error event, and the others are not affected.
func TestLiveSessionsFailAlone(t *testing.T) {
	s := startLive(t, &model{}, live.Limits{})
	for protocol, client := range clients(t) {
		t.Run(protocol, func(t *testing.T) {
			healthy := openDialog(t, client, s, "{\"open\":{}}\n")
			failing := openDialog(t, client, s, "{\"open\":{}}\n")
			healthy.send(textMessage(liveText[:40]))
			failing.send("nonsense\n")
			require.Equal(t, "invalid", failing.next().Error.Code)
			require.Empty(t, failing.rest())
			healthy.send(textMessage(liveText[40:]))
			require.NoError(t, healthy.to.Close())
			requireScored(t, liveMessages(t, healthy.rest()))
		})
	}
}

// A client that leaves ends its session, also while the model is busy with it.
func TestLiveClientLeaves(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) {
			m := gated()
			s := startLive(t, m, live.Limits{Sessions: 1})
			ctx, leave := context.WithCancel(t.Context())
			from, to := io.Pipe()
			defer to.Close()
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.addr+"/v1/live", from)
			require.NoError(t, err)
			r.Header.Set("Content-Type", "application/x-ndjson")
			go func() { _, _ = io.WriteString(to, "{\"open\":{}}\n"+textMessage(liveText)+"{\"close\":{}}\n") }()
			response, err := clients(t)[protocol].Do(r)
			require.NoError(t, err)
			await(t, m.entered, "a batch")
			leave()
			_ = response.Body.Close()
			entry := s.log.request(t)
			require.Contains(t, entry["error"], "canceled")
			close(m.release)
			go func() {
				for range m.entered { //nolint:revive // lets all batches pass
				}
			}()
			a := s.do(t, "POST", "/v1/live", strings.NewReader("{\"open\":{}}\n"+textMessage(liveText)))
			close(m.entered)
			requireScored(t, liveMessages(t, a.body))
		})
	}
}

// A client that sends everything before it reads gets everything, however much that
// is: more than the buffers of the connection.
func TestLiveReadsAfterSending(t *testing.T) {
	s := startLive(t, &model{}, live.Limits{})
	conn, err := net.Dial("tcp", s.addr)
	require.NoError(t, err)
	defer conn.Close()
	const pieces = 4000
	body := "{\"open\":{}}\n" + strings.Repeat(textMessage("This sentence is one of many, all of them equal. "), pieces)
	fmt.Fprintf(conn, "POST /v1/live HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", len(body))
	_, err = io.WriteString(conn, body)
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, pieces+1, bytes.Count(content, []byte("\n")), "an event per sentence, and the result")
	require.True(t, response.Close, "the rest of a body is never taken for a request")
}

// Sessions that are behind do not keep other requests on their connection from sending a
// body.
func TestLiveSessionsLeaveTheirConnectionToOthers(t *testing.T) {
	m := gated()
	end, passed := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(end); <-passed }) // after that of the scorer
	s := startLive(t, m, live.Limits{})
	client := clients(t)["HTTP/2.0"]
	var sent atomic.Int64
	for range 8 {
		d := openDialog(t, client, s, "{\"open\":{}}\n")
		full := make(chan struct{})
		go func() {
			defer close(full)
			for {
				n, err := io.WriteString(d.to, textMessage(strings.Repeat("One more sentence. ", 50)))
				if sent.Add(int64(n)); err != nil {
					return
				}
			}
		}()
		t.Cleanup(func() { _ = d.to.Close(); <-full })
	}
	await(t, m.entered, "a batch")
	defer func() {
		close(m.release)
		go func() {
			defer close(passed)
			for {
				select {
				case <-m.entered:
				case <-end:
					return
				}
			}
		}()
	}()
	before := int64(0)
	require.Eventually(t, func() bool { // nothing more can be sent
		now := sent.Load()
		stalled := now == before
		before = now
		return stalled
	}, timeout, 200*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.addr+"/v1/score", strings.NewReader(`{"nonsense":"`+strings.Repeat("x", 8<<10)+`"}`))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	response, err := client.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, 400, response.StatusCode)
}

// Many sessions at the same time do not mix.
func TestLiveSessionsAreConcurrent(t *testing.T) {
	s := startLive(t, &model{}, live.Limits{})
	var group sync.WaitGroup
	for protocol, client := range clients(t) {
		for i := range 16 {
			group.Go(func() {
				id := fmt.Sprint(protocol, i)
				body := fmt.Sprintf("{\"open\":{\"id\":%q}}\n", id) + textMessage(liveText)
				response, err := client.Post("http://"+s.addr+"/v1/live", "application/json", strings.NewReader(body))
				if !assertNoError(t, err) {
					return
				}
				defer response.Body.Close()
				content, err := io.ReadAll(response.Body)
				if assertNoError(t, err) && !bytes.Contains(content, []byte(`"result":{"id":"`+id+`"`)) {
					t.Errorf("%s", content)
				}
			})
		}
	}
	group.Wait()
}

func assertNoError(t *testing.T, err error) bool {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

// A session that its client neither feeds nor closes ends with a reason.
func TestLiveIdle(t *testing.T) {
	s := startLive(t, &model{}, live.Limits{Idle: 50 * time.Millisecond})
	for protocol, client := range clients(t) {
		t.Run(protocol, func(t *testing.T) {
			d := openDialog(t, client, s, "{\"open\":{}}\n")
			require.Equal(t, "idle", d.next().Error.Code)
			require.Empty(t, d.rest())
		})
	}
}
