package serve_test

import (
	"fmt"
	"net/http"
	"os"
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

	"assay/api/oip/inference"
	"assay/queue"
	"assay/rewardmodel"
	"assay/sidecar/cli"
	"assay/sidecar/processtest"
)

func TestServe(t *testing.T) {
	model := processtest.TinyModel(t, nil)
	p := processtest.Serve(t, model, t.TempDir(), "--ops-listen", ":0", "--grpc-listen", "127.0.0.1:0", "--drain-delay", "2s")
	require.Equal(t, "tiny-1", p.Ready.Model)
	nc, js := p.JetStream(t)

	t.Run("HTTP", func(t *testing.T) {
		status, body := processtest.Get(t, p.Ready.HTTP+"/readyz")
		require.Equal(t, http.StatusOK, status, body)
		answer := processtest.Post(t, p.Ready.HTTP, `{"responses":[{"id":"a","response":"One. Two."}],"options":{"aggregate":"mean"}}`)
		require.Equal(t, "tiny-1", answer.Model.Version)
		require.Equal(t, "a", answer.Results[0].ID)
		require.Equal(t, 0.4, answer.Results[0].Threshold, "of its aggregate")
		require.Len(t, answer.Results[0].Instances, 2)
		_, body = processtest.Get(t, p.Ready.HTTP+"/metrics")
		for _, name := range []string{"assay_", "go_goroutines", "process_resident_memory_bytes"} {
			require.Contains(t, body, name)
		}
		_, body = processtest.Get(t, p.Ready.HTTP+"/v1/models")
		require.Contains(t, body, `"tiny-1"`)
	})
	t.Run("gRPC", func(t *testing.T) {
		conn, err := grpc.NewClient(p.Ready.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		defer conn.Close()
		text := &inference.ModelInferRequest_InferInputTensor{Name: "text", Datatype: "BYTES", Shape: []int64{1},
			Contents: &inference.InferTensorContents{BytesContents: [][]byte{[]byte("One. Two.")}}}
		out := &inference.ModelInferResponse{}
		require.NoError(t, conn.Invoke(t.Context(), "/inference.GRPCInferenceService/ModelInfer",
			&inference.ModelInferRequest{Inputs: []*inference.ModelInferRequest_InferInputTensor{text}}, out))
		answer := processtest.Post(t, p.Ready.HTTP, `{"responses":[{"response":"One. Two."}]}`)
		require.Equal(t, float32(answer.Results[0].Reward), out.Outputs[0].Contents.Fp32Contents[0])
	})
	t.Run("the printed curl line", func(t *testing.T) {
		if _, err := exec.LookPath("curl"); err != nil {
			t.Skip("curl is not installed")
		}
		out, err := exec.CommandContext(t.Context(), "sh", "-c", processtest.SampleCommand(t, p)).Output()
		require.NoError(t, err)
		var answer rewardmodel.ScoreResponse
		require.NoError(t, json.Unmarshal(out, &answer), string(out))
		require.Len(t, answer.Results[0].Instances, 3)
	})
	t.Run("a request over NATS", func(t *testing.T) {
		reply, err := nc.Request(queue.SubjectScore, []byte(`{"responses":[{"id":"b","response":"One."}]}`), processtest.Timeout)
		require.NoError(t, err)
		var answer rewardmodel.ScoreResponse
		require.NoError(t, json.Unmarshal(reply.Data, &answer))
		require.Equal(t, "b", answer.Results[0].ID)
	})
	t.Run("score through the service", func(t *testing.T) {
		data, err := os.ReadFile("../commands/testdata/responses.jsonl")
		require.NoError(t, err)
		responses := string(data)
		local, _, code := assay(t, responses, "score", "--model", model, "--precision", "fp32", "--threads", "1")
		require.Equal(t, cli.ExitDone, code)
		remote, stderr, code := assay(t, responses, "score", "--nats-url", p.Ready.NATS, "--model", "nowhere")
		require.Equal(t, cli.ExitDone, code, stderr)
		processtest.RequireClose(t, local, remote)
	})
	t.Run("a stream", func(t *testing.T) {
		processtest.Publish(t, js, "job.1", "c", `{"response":"One. Two."}`)
		msg := processtest.NextReward(t, js, "job.1")
		require.Equal(t, "tiny-1", msg.Headers().Get(queue.HeaderModelVersion))
		var result rewardmodel.Result
		require.NoError(t, json.Unmarshal(msg.Data(), &result))
		require.Equal(t, "c", result.ID)
	})
	t.Run("a second service on the same data", func(t *testing.T) {
		other := processtest.Launch(t, "--model", model, "--data-dir", processtest.DataDir(p))
		require.Equal(t, cli.ExitFailed, other.Wait(t))
		require.Contains(t, other.Output(), "in use")
	})
	t.Run("a taken address", func(t *testing.T) {
		other := processtest.Launch(t, "--model", model, "--nats", "off", "--listen", strings.TrimPrefix(p.Ready.HTTP, "http://"))
		require.Equal(t, cli.ExitFailed, other.Wait(t))
		require.Contains(t, other.Output(), "--listen")
	})
	p.Signal(t)
	require.Eventually(t, func() bool {
		status, _ := processtest.Get(t, p.Ready.HTTP+"/readyz")
		return status == http.StatusServiceUnavailable
	}, processtest.Timeout, time.Millisecond)
	processtest.Post(t, p.Ready.HTTP, `{"responses":[{"response":"Still served."}]}`)
	require.Equal(t, cli.ExitDone, p.Wait(t), p.Output())
	require.Contains(t, p.Output(), `"stopped"`)
}

func TestSIGTERMFinishesRequestsInFlight(t *testing.T) {
	p := processtest.Serve(t, processtest.TinyModel(t, nil), t.TempDir(), "--log-format", "json")
	_, js := p.JetStream(t)
	const responses = 200
	for i := range responses {
		processtest.Publish(t, js, "job", fmt.Sprint("s", i), fmt.Sprintf(`{"response":"%s"}`, processtest.LongText(i)))
	}
	// A request large enough to be in flight when the signal arrives.
	var items []string
	for i := range 400 {
		items = append(items, fmt.Sprintf(`{"response":"%s"}`, processtest.LongText(1000+i)))
	}
	body := `{"responses":[` + strings.Join(items, ",") + `]}`
	answered := make(chan error, 1)
	go func() {
		response, err := http.Post(p.Ready.HTTP+"/v1/score", "application/json", strings.NewReader(body))
		if err == nil {
			defer response.Body.Close()
			var answer rewardmodel.ScoreResponse
			if err = json.UnmarshalRead(response.Body, &answer); err == nil && len(answer.Results) != len(items) {
				err = fmt.Errorf("%d results", len(answer.Results))
			}
		}
		answered <- err
	}()
	require.Eventually(t, func() bool {
		_, metrics := processtest.Get(t, p.Ready.HTTP+"/metrics")
		return strings.Contains(metrics, "assay_http_requests_in_flight 2") // the request, and this one
	}, processtest.Timeout, time.Millisecond)
	p.Signal(t)
	require.NoError(t, <-answered)
	require.Equal(t, cli.ExitDone, p.Wait(t), p.Output())

	// The next process completes the rest, once.
	p = processtest.Serve(t, processtest.TinyModel(t, nil), processtest.DataDir(p))
	processtest.RequireOneRewardEach(t, p, responses, "s")
}

func TestKillNineLosesAndDuplicatesNothing(t *testing.T) {
	model, data := processtest.TinyModel(t, nil), t.TempDir()
	p := processtest.Serve(t, model, data)
	_, js := p.JetStream(t)
	const responses = 500
	for i := range responses {
		msg := nats.NewMsg(queue.SubjectResponses + ".job")
		msg.Data = fmt.Appendf(nil, `{"id":"k%d","response":"%s"}`, i, processtest.LongText(i))
		msg.Header.Set(jetstream.MsgIDHeader, fmt.Sprint("k", i))
		_, err := js.PublishMsgAsync(msg)
		require.NoError(t, err)
	}
	<-js.PublishAsyncComplete()
	require.Eventually(t, func() bool { return processtest.Stored(t, js, queue.StreamRewards) >= responses/10 }, processtest.Timeout, time.Millisecond)
	p.Kill()

	p = processtest.Serve(t, model, data)
	processtest.RequireOneRewardEach(t, p, responses, "k")
}
