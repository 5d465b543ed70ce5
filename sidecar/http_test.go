package main

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

// fetch reads a JSON answer.
func fetch(t *testing.T, url string, into any) {
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

// awaitVersion waits until a service scores with a version.
func awaitVersion(t *testing.T, url, version string) {
	t.Helper()
	require.Eventually(t, func() bool { return servedBy(t, url) == version }, patience, 50*time.Millisecond)
}

// servedBy is the version that scores now.
func servedBy(t *testing.T, url string) string {
	t.Helper()
	return post(t, url, `{"responses":[{"response":"Who are you?"}]}`).Model.Version
}
