package main

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"assay/api/inference"
	"assay/queue"
	"assay/rewardmodel"
	"assay/sidecar/cli"
)

func TestServe(t *testing.T) {
	model := tinyModel(t, nil)
	p := serve(t, model, t.TempDir(), "--ops-listen", ":0", "--grpc-listen", "127.0.0.1:0", "--drain-delay", "2s")
	require.Equal(t, "tiny-1", p.ready.Model)
	nc, js := p.jetStream(t)

	t.Run("HTTP", func(t *testing.T) {
		status, body := get(t, p.ready.HTTP+"/readyz")
		require.Equal(t, http.StatusOK, status, body)
		answer := post(t, p.ready.HTTP, `{"responses":[{"id":"a","response":"One. Two."}],"options":{"aggregate":"mean"}}`)
		require.Equal(t, "tiny-1", answer.Model.Version)
		require.Equal(t, "a", answer.Results[0].ID)
		require.Equal(t, 0.4, answer.Results[0].Threshold, "of its aggregate")
		require.Len(t, answer.Results[0].Instances, 2)
		_, body = get(t, p.ready.HTTP+"/metrics")
		for _, name := range []string{"assay_", "go_goroutines", "process_resident_memory_bytes"} {
			require.Contains(t, body, name)
		}
		_, body = get(t, p.ready.HTTP+"/v1/models")
		require.Contains(t, body, `"tiny-1"`)
	})
	t.Run("gRPC", func(t *testing.T) {
		conn, err := grpc.NewClient(p.ready.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		defer conn.Close()
		text := &inference.ModelInferRequest_InferInputTensor{Name: "text", Datatype: "BYTES", Shape: []int64{1},
			Contents: &inference.InferTensorContents{BytesContents: [][]byte{[]byte("One. Two.")}}}
		out := &inference.ModelInferResponse{}
		require.NoError(t, conn.Invoke(t.Context(), "/inference.GRPCInferenceService/ModelInfer",
			&inference.ModelInferRequest{Inputs: []*inference.ModelInferRequest_InferInputTensor{text}}, out))
		answer := post(t, p.ready.HTTP, `{"responses":[{"response":"One. Two."}]}`)
		require.Equal(t, float32(answer.Results[0].Reward), out.Outputs[0].Contents.Fp32Contents[0])
	})
	t.Run("the printed curl line", func(t *testing.T) {
		if _, err := exec.LookPath("curl"); err != nil {
			t.Skip("curl is not installed")
		}
		out, err := exec.CommandContext(t.Context(), "sh", "-c", printed(t, p)).Output()
		require.NoError(t, err)
		var answer rewardmodel.Answer
		require.NoError(t, json.Unmarshal(out, &answer), string(out))
		require.Len(t, answer.Results[0].Instances, 3)
	})
	t.Run("a request over NATS", func(t *testing.T) {
		reply, err := nc.Request(queue.SubjectScore, []byte(`{"responses":[{"id":"b","response":"One."}]}`), patience)
		require.NoError(t, err)
		var answer rewardmodel.Answer
		require.NoError(t, json.Unmarshal(reply.Data, &answer))
		require.Equal(t, "b", answer.Results[0].ID)
	})
	t.Run("score through the service", func(t *testing.T) {
		local, _, code := assay(t, golden(t, "responses.jsonl"), "score", "--model", model, "--precision", "fp32", "--threads", "1")
		require.Equal(t, cli.ExitDone, code)
		remote, stderr, code := assay(t, golden(t, "responses.jsonl"), "score", "--nats-url", p.ready.NATS, "--model", "nowhere")
		require.Equal(t, cli.ExitDone, code, stderr)
		requireClose(t, local, remote)
	})
	t.Run("a stream", func(t *testing.T) {
		publish(t, js, "job.1", "c", `{"response":"One. Two."}`)
		msg := nextReward(t, js, "job.1")
		require.Equal(t, "tiny-1", msg.Headers().Get(queue.HeaderModelVersion))
		var result rewardmodel.Result
		require.NoError(t, json.Unmarshal(msg.Data(), &result))
		require.Equal(t, "c", result.ID)
	})
	t.Run("a second service on the same data", func(t *testing.T) {
		other := launch(t, "--model", model, "--data-dir", dataDir(p))
		require.Equal(t, cli.ExitFailed, other.wait(t))
		require.Contains(t, other.output(), "in use")
	})
	t.Run("a taken address", func(t *testing.T) {
		other := launch(t, "--model", model, "--nats", "off", "--listen", strings.TrimPrefix(p.ready.HTTP, "http://"))
		require.Equal(t, cli.ExitFailed, other.wait(t))
		require.Contains(t, other.output(), "--listen")
	})
	p.signal(t)
	require.Eventually(t, func() bool {
		status, _ := get(t, p.ready.HTTP+"/readyz")
		return status == http.StatusServiceUnavailable
	}, patience, time.Millisecond)
	post(t, p.ready.HTTP, `{"responses":[{"response":"Still served."}]}`)
	require.Equal(t, cli.ExitDone, p.wait(t), p.output())
	require.Contains(t, p.output(), `"stopped"`)
}

func TestSIGTERMAnswersWhatIsInFlight(t *testing.T) {
	p := serve(t, tinyModel(t, nil), t.TempDir(), "--log-format", "json")
	_, js := p.jetStream(t)
	const responses = 200
	for i := range responses {
		publish(t, js, "job", fmt.Sprint("s", i), fmt.Sprintf(`{"response":"%s"}`, longText(i)))
	}
	// A request large enough to be at work when the signal comes.
	var items []string
	for i := range 400 {
		items = append(items, fmt.Sprintf(`{"response":"%s"}`, longText(1000+i)))
	}
	body := `{"responses":[` + strings.Join(items, ",") + `]}`
	answered := make(chan error, 1)
	go func() {
		response, err := http.Post(p.ready.HTTP+"/v1/score", "application/json", strings.NewReader(body))
		if err == nil {
			defer response.Body.Close()
			var answer rewardmodel.Answer
			if err = json.UnmarshalRead(response.Body, &answer); err == nil && len(answer.Results) != len(items) {
				err = fmt.Errorf("%d results", len(answer.Results))
			}
		}
		answered <- err
	}()
	require.Eventually(t, func() bool {
		_, metrics := get(t, p.ready.HTTP+"/metrics")
		return strings.Contains(metrics, "assay_http_requests_in_flight 2") // ours, and the one that asks
	}, patience, time.Millisecond)
	p.signal(t)
	require.NoError(t, <-answered)
	require.Equal(t, cli.ExitDone, p.wait(t), p.output())

	// What was not done is done by the next one, once.
	p = serve(t, tinyModel(t, nil), dataDir(p))
	requireOneRewardEach(t, p, responses, "s")
}

func TestKillNineLosesAndDoublesNothing(t *testing.T) {
	model, data := tinyModel(t, nil), t.TempDir()
	p := serve(t, model, data)
	_, js := p.jetStream(t)
	const responses = 500
	for i := range responses {
		msg := nats.NewMsg(queue.SubjectResponses + ".job")
		msg.Data = fmt.Appendf(nil, `{"id":"k%d","response":"%s"}`, i, longText(i))
		msg.Header.Set(jetstream.MsgIDHeader, fmt.Sprint("k", i))
		_, err := js.PublishMsgAsync(msg)
		require.NoError(t, err)
	}
	<-js.PublishAsyncComplete()
	require.Eventually(t, func() bool { return stored(t, js, queue.StreamRewards) >= responses/10 }, patience, time.Millisecond)
	p.kill()

	p = serve(t, model, data)
	requireOneRewardEach(t, p, responses, "k")
}

// requireOneRewardEach waits until all responses are done.
func requireOneRewardEach(t *testing.T, p *process, responses int, prefix string) {
	t.Helper()
	_, js := p.jetStream(t)
	require.Eventually(t, func() bool { return stored(t, js, queue.StreamResponses) == 0 }, patience, 10*time.Millisecond)
	require.Equal(t, responses, stored(t, js, queue.StreamRewards))
	require.Zero(t, stored(t, js, queue.StreamDead))
	stream, err := js.Stream(t.Context(), queue.StreamRewards)
	require.NoError(t, err)
	seen := map[string]int{}
	for sequence := range responses {
		msg, err := stream.GetMsg(t.Context(), uint64(sequence)+1)
		require.NoError(t, err)
		var result rewardmodel.Result
		require.NoError(t, json.Unmarshal(msg.Data, &result))
		seen[result.ID]++
	}
	for i := range responses {
		require.Equal(t, 1, seen[fmt.Sprint(prefix, i)])
	}
}

// longText is different for every i, so that no cache knows it.
func longText(i int) string {
	var b strings.Builder
	for k := range 40 {
		fmt.Fprintf(&b, "Sentence %d of response %d says something. ", k, i)
	}
	return b.String()
}

// dataDir is where a process keeps its data.
func dataDir(p *process) string {
	for i, arg := range p.cmd.Args {
		if arg == "--data-dir" {
			return p.cmd.Args[i+1]
		}
	}
	return ""
}

// printed is the line that a process prints to be tried.
func printed(t *testing.T, p *process) string {
	t.Helper()
	select {
	case line := <-p.tries:
		return line
	case <-time.After(patience):
		t.Fatal("no line was printed")
		return ""
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := http.Get(url)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

func post(t *testing.T, url, body string) rewardmodel.Answer {
	t.Helper()
	response, err := http.Post(url+"/v1/score", "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)
	var answer rewardmodel.Answer
	require.NoError(t, json.UnmarshalRead(response.Body, &answer))
	return answer
}

func publish(t *testing.T, js jetstream.JetStream, tail, id, item string) {
	t.Helper()
	_, err := js.Publish(t.Context(), queue.SubjectResponses+"."+tail, []byte(item), jetstream.WithMsgID(id))
	require.NoError(t, err)
}

func nextReward(t *testing.T, js jetstream.JetStream, tail string) jetstream.Msg {
	t.Helper()
	consumer, err := js.OrderedConsumer(t.Context(), queue.StreamRewards, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{queue.SubjectRewards + "." + tail},
	})
	require.NoError(t, err)
	msg, err := consumer.Next(jetstream.FetchMaxWait(patience))
	require.NoError(t, err)
	return msg
}
