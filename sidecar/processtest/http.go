package processtest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/rewardmodel"
)

// RequireOneRewardEach waits until every response has exactly one reward.
func RequireOneRewardEach(t *testing.T, p *Process, responses int, prefix string) {
	t.Helper()
	_, js := p.JetStream(t)
	require.Eventually(t, func() bool { return Stored(t, js, queue.StreamResponses) == 0 }, Timeout, 10*time.Millisecond)
	require.Equal(t, responses, Stored(t, js, queue.StreamRewards))
	require.Zero(t, Stored(t, js, queue.StreamDead))
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

// LongText returns a different text for every i, so that no cache has it.
func LongText(i int) string {
	var b strings.Builder
	for k := range 40 {
		fmt.Fprintf(&b, "Sentence %d of response %d says something. ", k, i)
	}
	return b.String()
}

// DataDir is the data directory of a process.
func DataDir(p *Process) string {
	for i, arg := range p.Cmd.Args {
		if arg == "--data-dir" {
			return p.Cmd.Args[i+1]
		}
	}
	return ""
}

// SampleCommand waits for the sample command that a process prints.
func SampleCommand(t *testing.T, p *Process) string {
	t.Helper()
	select {
	case line := <-p.commands:
		return line
	case <-time.After(Timeout):
		t.Fatal("no line was printed")
		return ""
	}
}

// Get returns the status and the body of a response.
func Get(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := http.Get(url)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

// Post scores over HTTP.
func Post(t *testing.T, url, body string) rewardmodel.ScoreResponse {
	t.Helper()
	response, err := http.Post(url+"/v1/score", "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)
	var answer rewardmodel.ScoreResponse
	require.NoError(t, json.UnmarshalRead(response.Body, &answer))
	return answer
}

// Publish publishes a response to score on assay.v1.responses.<tail>.
func Publish(t *testing.T, js jetstream.JetStream, tail, id, item string) {
	t.Helper()
	_, err := js.Publish(t.Context(), queue.SubjectResponses+"."+tail, []byte(item), jetstream.WithMsgID(id))
	require.NoError(t, err)
}

// NextReward is the first reward on assay.v1.rewards.<tail>.
func NextReward(t *testing.T, js jetstream.JetStream, tail string) jetstream.Msg {
	t.Helper()
	consumer, err := js.OrderedConsumer(t.Context(), queue.StreamRewards, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{queue.SubjectRewards + "." + tail},
	})
	require.NoError(t, err)
	msg, err := consumer.Next(jetstream.FetchMaxWait(Timeout))
	require.NoError(t, err)
	return msg
}

// Fetch decodes a JSON response.
func Fetch(t *testing.T, url string, into any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	request.Header.Set("Accept", "application/json")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode, url)
	require.NoError(t, json.UnmarshalRead(response.Body, into))
}

// AwaitVersion waits until a service scores with a version.
func AwaitVersion(t *testing.T, url, version string) {
	t.Helper()
	require.Eventually(t, func() bool { return ServedBy(t, url) == version }, Timeout, 50*time.Millisecond)
}

// ServedBy is the version that currently scores.
func ServedBy(t *testing.T, url string) string {
	t.Helper()
	return Post(t, url, `{"responses":[{"response":"Who are you?"}]}`).Model.Version
}
