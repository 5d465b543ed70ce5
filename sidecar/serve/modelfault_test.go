package serve_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"assay/api/livegrpc/livepb"
	"assay/api/oip/inference"
	"assay/internal/nativefault/faulttest"
	"assay/queue"
	"assay/rewardmodel"
	"assay/rewardmodel/tokenizer"
	"assay/sidecar/cli"
	"assay/sidecar/processtest"
	"assay/sidecar/program"
	"assay/sidecar/serve"
)

// faultVariable makes a child of the test binary a service whose model has a fault.
const faultVariable = "TEST_BINARY_MODEL_FAULT"

const (
	faultCrash = "crash"
	faultLater = "later" // crashes when the process gets SIGUSR1
	faultHang  = "hang"
	faultStop  = "stop" // stops the service, and hangs before the watchdog notices

	// A text of innocentTokens, including special tokens, is harmless; one more token makes it poisonous.
	innocentTokens = 10
)

// serveFaulty is "assay serve" with a fault in the thread of libtorch.
func serveFaulty(fault string) int {
	p := program.Assay()
	commands, shared := p.New()
	parser, err := p.Parser(commands, os.Stdout, os.Stderr)
	if err != nil {
		return p.Fail(os.Stderr, err)
	}
	if _, err := parser.Parse(os.Args[1:]); err != nil {
		return p.Fail(os.Stderr, err)
	}
	cfg, err := commands.(*program.Commands).Serve.Config()
	if err != nil {
		return p.Fail(os.Stderr, err)
	}
	log := shared.Logger(os.Stderr, &cli.LogLevel{})
	s, err := serve.New(cfg, log)
	if err != nil {
		return p.Fail(os.Stderr, err)
	}
	later := make(chan os.Signal, 1)
	signal.Notify(later, unix.SIGUSR1)
	s.ReplaceWatchdog(func(w serve.Watchdog) serve.Watchdog { return &faultyModel{Watchdog: w, fault: fault, later: later} })
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s.Start()
	context.AfterFunc(ctx, func() { _ = s.Shutdown() })
	if s.Ready(ctx) == nil {
		log.Info().Str("http", s.URL()).Str("grpc", s.GRPCAddress()).Str("nats", s.NATSURL()).Msg("ready")
	}
	if err := s.Wait(); err != nil {
		return p.Fail(os.Stderr, err)
	}
	return cli.ExitDone
}

// faultyModel fails in the thread of libtorch when a batch contains a poisonous text.
type faultyModel struct {
	serve.Watchdog
	fault string
	later <-chan os.Signal
	hung  atomic.Pointer[time.Time]
}

func (m *faultyModel) Begin(sequences, tokens int) {
	m.Watchdog.Begin(sequences, tokens)
	if tokens%innocentTokens != 1 {
		return
	}
	switch m.fault {
	case faultHang:
		m.hung.Store(new(time.Now()))
		select {}
	case faultLater:
		<-m.later
	case faultStop:
		_ = unix.Kill(os.Getpid(), unix.SIGTERM)
		select {}
	}
	faulttest.Access(0)
}

// Stalled has limits that are short enough for a test.
func (m *faultyModel) Stalled() error {
	const limit = time.Second
	began := m.hung.Load()
	if began == nil || time.Since(*began) <= limit {
		return nil
	}
	return &rewardmodel.StalledError{Sequences: 1, Tokens: innocentTokens + 1, Took: time.Since(*began), Limit: limit}
}

// textsOfTokens returns distinct texts of one utterance with the given number of tokens.
func textsOfTokens(t *testing.T, model string, tokens, n int) (texts []string) {
	t.Helper()
	tok, err := tokenizer.Load(model)
	require.NoError(t, err)
	for i := 0; len(texts) < n; i++ {
		text := "thank you for number " + strconv.Itoa(i)
		for len(tok.Frame(tok.IDs(text))) < tokens {
			text += " a"
		}
		if len(tok.Frame(tok.IDs(text))) == tokens {
			texts = append(texts, text)
		}
	}
	return texts
}

// supervised is a service that is restarted whenever it exits.
type supervised struct {
	t      *testing.T
	args   []string
	now    *processtest.Process
	deaths int
	codes  []int
}

func (s *supervised) start() {
	s.t.Helper()
	s.now = processtest.Launch(s.t, s.args...)
	require.NotEmpty(s.t, s.now.Ready.HTTP, "the service did not become ready")
}

// until restarts the service until done returns true.
func (s *supervised) until(done func(jetstream.JetStream) bool) {
	s.t.Helper()
	deadline := time.Now().Add(3 * processtest.Timeout)
	for {
		nc, err := nats.Connect(s.now.Ready.NATS, nats.NoReconnect())
		if err == nil {
			js, err := jetstream.New(nc)
			require.NoError(s.t, err)
			if done(js) {
				nc.Close()
				return
			}
			nc.Close()
		}
		require.True(s.t, time.Now().Before(deadline), "%d deaths", s.deaths)
		select {
		case <-s.now.Done:
			s.codes = append(s.codes, s.now.Wait(s.t))
			s.deaths++
			require.Less(s.t, s.deaths, 8, "it does not end:\n%s", s.now.Output())
			s.start()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// publishAll publishes responses, again after a crash of the server, which discards duplicates.
func (s *supervised) publishAll(texts map[string]string) {
	s.t.Helper()
	left := map[string]bool{}
	for id := range texts {
		left[id] = true
	}
	s.until(func(js jetstream.JetStream) bool {
		acks := map[string]jetstream.PubAckFuture{}
		for id := range left {
			body, err := json.Marshal(map[string]string{"id": id, "response": texts[id]})
			require.NoError(s.t, err)
			ack, err := js.PublishAsync(queue.SubjectResponses+".x", body, jetstream.WithMsgID(id))
			if err == nil {
				acks[id] = ack
			}
		}
		select {
		case <-js.PublishAsyncComplete():
		case <-s.now.Done:
		}
		for id, ack := range acks {
			select {
			case <-ack.Ok():
				delete(left, id)
			default:
			}
		}
		return len(left) == 0
	})
}

// awaitEmpty waits until no response is left.
func (s *supervised) awaitEmpty() {
	s.t.Helper()
	s.until(func(js jetstream.JetStream) bool {
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
		defer cancel()
		stream, err := js.Stream(ctx, queue.StreamResponses)
		return err == nil && stream.CachedInfo().State.Msgs == 0
	})
}

// requireOutcome checks that each innocent response has one reward, and the poisonous one a dead letter.
func (s *supervised) requireOutcome(innocents map[string]string, poison string) {
	s.t.Helper()
	_, js := s.now.JetStream(s.t)
	rewards, err := js.Stream(s.t.Context(), queue.StreamRewards)
	require.NoError(s.t, err)
	seen := map[string]int{}
	for sequence := uint64(1); sequence <= rewards.CachedInfo().State.LastSeq; sequence++ {
		msg, err := rewards.GetMsg(s.t.Context(), sequence)
		require.NoError(s.t, err)
		var result struct {
			ID string `json:"id"`
		}
		require.NoError(s.t, json.Unmarshal(msg.Data, &result))
		seen[result.ID]++
	}
	want := map[string]int{}
	for id := range innocents {
		want[id] = 1
	}
	require.Equal(s.t, want, seen, "one reward each")
	dead, err := js.Stream(s.t.Context(), queue.StreamDead)
	require.NoError(s.t, err)
	require.EqualValues(s.t, 1, dead.CachedInfo().State.Msgs)
	letter, err := dead.GetLastMsgForSubject(s.t.Context(), queue.SubjectDead+".crash")
	require.NoError(s.t, err)
	require.Equal(s.t, poison, letter.Header.Get(queue.HeaderMsgID))
	deliveries, err := strconv.Atoi(letter.Header.Get(queue.HeaderDeliveries))
	require.NoError(s.t, err)
	require.GreaterOrEqual(s.t, deliveries, s.deaths+1)
}

// A response that kills the process, by SIGSEGV in the thread of libtorch, or makes the model hang, ends as a dead
// letter after four restarts: three with everything in flight, one in isolation. The other responses get their rewards.
func TestResponseThatCrashesTheProcessIsDeadLettered(t *testing.T) {
	for _, tc := range []struct {
		fault, says string
	}{
		{faultCrash, "a fault in native code: SIGSEGV at address 0x0, in "},
		{faultHang, "the model call has stalled"},
	} {
		t.Run(tc.fault, func(t *testing.T) {
			t.Setenv(faultVariable, tc.fault)
			model := processtest.TinyModel(t, nil)
			s := &supervised{t: t, args: processtest.Serving(model, t.TempDir())}
			s.start()
			innocents := map[string]string{}
			for i, text := range textsOfTokens(t, model, innocentTokens, 40) {
				innocents["innocent-"+strconv.Itoa(i)] = text
			}
			all := map[string]string{"poison": textsOfTokens(t, model, innocentTokens+1, 1)[0]}
			maps.Copy(all, innocents)
			first := s.now
			s.publishAll(all)
			s.awaitEmpty()
			require.Equal(t, []int{cli.ExitFailed, cli.ExitFailed, cli.ExitFailed, cli.ExitFailed}, s.codes)
			require.Contains(t, first.Output(), tc.says)
			require.Contains(t, first.Output(), "exiting so that a supervisor starts a new process")
			s.requireOutcome(innocents, "poison")
			s.now.Signal(t)
			require.Zero(t, s.now.Wait(t), s.now.Output())
		})
	}
}

// Every request in flight at a fault in native code is answered, over HTTP, gRPC and NATS, and so is every live session.
func TestRequestsInFlightAtAFault(t *testing.T) {
	t.Setenv(faultVariable, faultLater)
	model := processtest.TinyModel(t, nil)
	p := processtest.Serve(t, model, t.TempDir(), "--grpc-listen", "127.0.0.1:0")
	t.Cleanup(p.Kill) // if the model still waits
	const n = 32
	texts := textsOfTokens(t, model, innocentTokens, n+3) // equal ones would be scored once
	type answer struct {
		status int
		retry  string
		body   string
	}
	answers := make(chan answer, n)
	ask := func(text string) {
		response, err := http.Post(p.Ready.HTTP+"/v1/score", "application/json", strings.NewReader(fmt.Sprintf(`{"responses":[{"response":%q}]}`, text)))
		if err != nil {
			answers <- answer{body: err.Error()}
			return
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			body = []byte(err.Error())
		}
		answers <- answer{response.StatusCode, response.Header.Get("Retry-After"), string(body)}
	}
	go ask(textsOfTokens(t, model, innocentTokens+1, 1)[0])
	awaitMetric(t, p, "assay_http_requests_in_flight", 2) // with the one for the metrics
	nc, _ := p.JetStream(t)
	overNATS := make(chan error, 1)
	go func() {
		_, err := queue.NewClient(nc).Score(t.Context(), rewardmodel.Request{Responses: []rewardmodel.Item{{Response: &texts[0]}}})
		overNATS <- err
	}()
	inGRPC := overGRPC(t, p.Ready.GRPC, texts[n], texts[n+1])
	inSockets := overWebSocket(t, p.Ready.HTTP, texts[n+2])
	awaitMetric(t, p, `assay_queue_tokens{model_version="tiny-1"}`, innocentTokens+1+4*innocentTokens)
	for _, text := range texts[1:n] {
		go ask(text)
	}
	awaitMetric(t, p, "assay_http_requests_in_flight", n+2) // and the WebSocket
	require.NoError(t, p.Cmd.Process.Signal(unix.SIGUSR1))
	for range n {
		a := <-answers
		require.Equal(t, http.StatusServiceUnavailable, a.status, a.body)
		require.Equal(t, "1", a.retry)
		require.Contains(t, a.body, `"code":"shutting_down"`)
		require.NotContains(t, a.body, "SIGSEGV", "what only the log should have")
	}
	var refused *queue.Error
	require.ErrorAs(t, <-overNATS, &refused)
	require.Equal(t, http.StatusServiceUnavailable, refused.Code)
	require.Equal(t, time.Second, refused.RetryAfter)
	for range 2 {
		err := <-inGRPC
		require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
		require.NotContains(t, err.Error(), "SIGSEGV")
	}
	require.Contains(t, <-inSockets, `"code":"shutting_down"`)
	require.Equal(t, cli.ExitFailed, p.Wait(t))
	require.Contains(t, p.Output(), "a fault in native code: SIGSEGV at address 0x0, in ")
}

// overGRPC sends a live session and a request with a text each, and returns their errors.
func overGRPC(t *testing.T, address, liveText, text string) <-chan error {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	session, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/assay.v1.Live/Session")
	require.NoError(t, err)
	for _, m := range []*livepb.LiveMessage{{Message: &livepb.LiveMessage_Open_{Open: &livepb.LiveMessage_Open{}}}, {Message: &livepb.LiveMessage_Text{Text: liveText}}} {
		require.NoError(t, session.SendMsg(m))
	}
	require.NoError(t, session.CloseSend())
	errs := make(chan error, 2)
	go func() {
		var err error
		for err == nil {
			err = session.RecvMsg(&livepb.LiveEvent{})
		}
		errs <- err
	}()
	go func() {
		input := &inference.ModelInferRequest_InferInputTensor{
			Name: "text", Datatype: "BYTES", Shape: []int64{1},
			Contents: &inference.InferTensorContents{BytesContents: [][]byte{[]byte(text)}},
		}
		errs <- conn.Invoke(t.Context(), "/inference.GRPCInferenceService/ModelInfer",
			&inference.ModelInferRequest{Inputs: []*inference.ModelInferRequest_InferInputTensor{input}}, &inference.ModelInferResponse{})
	}()
	return errs
}

// overWebSocket sends a live session with a text, and returns the last message that it gets.
func overWebSocket(t *testing.T, address, text string) <-chan string {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), address+"/v1/live", nil) //nolint:bodyclose // hijacked
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.CloseNow() })
	for _, message := range []string{`{"open":{}}`, fmt.Sprintf(`{"text":%q}`, text), `{"close":{}}`} {
		require.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte(message)))
	}
	got := make(chan string, 1)
	go func() {
		var last string
		for {
			_, message, err := conn.Read(t.Context())
			if err != nil {
				got <- last + " " + err.Error()
				return
			}
			last = string(message)
		}
	}()
	return got
}

// awaitMetric waits until a metric has at least a value.
func awaitMetric(t *testing.T, p *processtest.Process, name string, value float64) {
	t.Helper()
	var last string
	defer func() {
		if t.Failed() {
			t.Log(last)
		}
	}()
	require.Eventually(t, func() bool {
		_, last = processtest.Get(t, p.Ready.HTTP+"/metrics")
		for line := range strings.Lines(last) {
			if text, ok := strings.CutPrefix(line, name+" "); ok {
				is, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
				return err == nil && is >= value
			}
		}
		return false
	}, processtest.Timeout, 10*time.Millisecond)
}

// The unit of systemd restarts the service after a fault.
func TestUnitRestartsAfterAFault(t *testing.T) {
	unit, err := os.ReadFile("../../examples/systemd/assay.service")
	require.NoError(t, err)
	require.Contains(t, string(unit), "\nRestart=on-failure\n")
	require.NotContains(t, string(unit), "\nRestartPreventExitStatus=")
}

// A service whose model hangs is not ready, says why, and exits.
func TestHungModelIsNotReady(t *testing.T) {
	t.Setenv(faultVariable, faultHang)
	model := processtest.TinyModel(t, nil)
	p := processtest.Serve(t, model, t.TempDir(), "--nats", "off")
	status, body := processtest.Get(t, p.Ready.HTTP+"/readyz")
	require.Equal(t, http.StatusOK, status, body)
	asked := askFaulty(t, p, model)
	require.Eventually(t, func() bool {
		status, body = processtest.Get(t, p.Ready.HTTP+"/readyz")
		return status == http.StatusServiceUnavailable
	}, processtest.Timeout, 10*time.Millisecond)
	require.Contains(t, body, "the model call has stalled: a batch of 1 sequences and 11 tokens")
	status, _ = processtest.Get(t, p.Ready.HTTP+"/livez")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, cli.ExitFailed, p.Wait(t))
	require.Contains(t, p.Output(), "not ready: the model does not respond")
	<-asked
}

// askFaulty has the model score a poisonous text. The channel is closed when the request has ended.
func askFaulty(t *testing.T, p *processtest.Process, model string) (ended <-chan struct{}) {
	t.Helper()
	text := textsOfTokens(t, model, innocentTokens+1, 1)[0]
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		response, err := http.Post(p.Ready.HTTP+"/v1/score", "application/json", strings.NewReader(fmt.Sprintf(`{"responses":[{"response":%q}]}`, text)))
		if err == nil {
			response.Body.Close()
		}
	}()
	return asked
}

// A service that is stopped while its model hangs, before the watchdog notices, ends within its timeout.
func TestShutdownWhileTheModelHangs(t *testing.T) {
	t.Setenv(faultVariable, faultStop)
	model := processtest.TinyModel(t, nil)
	p := processtest.Serve(t, model, t.TempDir(), "--nats", "off", "--shutdown-timeout", "500ms")
	asked := askFaulty(t, p, model)
	require.Equal(t, cli.ExitFailed, p.Wait(t))
	<-asked
}
