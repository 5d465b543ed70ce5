package queue

import (
	"context"
	"testing"
	"time"

	"assay/queue/internal/jstest"
	"assay/rewardmodel"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// requestFunc scores a whole request.
type requestFunc func(context.Context, rewardmodel.Request) (rewardmodel.ScoreResponse, error)

func (f requestFunc) Score(ctx context.Context, r rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	return f(ctx, r)
}

// A response whose timeout has passed is not scored, and the scoring of one that
// expires is canceled; both are dead-lettered.
func TestExpiredResponses(t *testing.T) {
	t.Parallel()
	scored := make(chan string, 10)
	q := openQueue(t, testConfig(t))
	send := func(text, timeout string) {
		msg := &nats.Msg{Subject: SubjectResponses + ".a", Data: []byte(item(text)), Header: nats.Header{}}
		msg.Header.Set(HeaderTimeout, timeout)
		_, err := q.js.PublishMsg(t.Context(), msg)
		require.NoError(t, err)
	}
	start := time.Now()
	send("late", "1ms")
	since(t, start, 10*time.Millisecond) // before it is pulled
	require.NoError(t, q.Start(t.Context(), requestFunc(func(ctx context.Context, r rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
		text := *r.Responses[0].Response
		scored <- text
		if text == "slow" {
			<-ctx.Done()
			return rewardmodel.ScoreResponse{}, ctx.Err()
		}
		require.Equal(t, rewardmodel.PriorityBulk, r.Priority)
		return scorerFunc(good).Score(ctx, r)
	})))
	send("slow", "2s") // long enough to be pulled on a busy machine
	send("fine", "10m")
	send("odd", "soon")
	awaitEmpty(t, q)
	close(scored)
	var texts []string
	for text := range scored {
		texts = append(texts, text)
	}
	require.ElementsMatch(t, []string{"slow", "fine"}, texts)
	require.Len(t, jstest.Messages(t, q.js, StreamRewards), 1)
	reasons := map[string]int{}
	for _, msg := range jstest.Messages(t, q.js, StreamDead) {
		reasons[msg.Subject+" "+msg.Header.Get(HeaderCode)]++
		require.Equal(t, HeaderTimeout, msg.Header.Get(HeaderField))
	}
	require.Equal(t, map[string]int{"assay.v1.dead.expired 504": 2, "assay.v1.dead.invalid 400": 1}, reasons)
}

func TestPriorityTravels(t *testing.T) {
	t.Parallel()
	got := make(chan rewardmodel.Priority, 1)
	q := startQueue(t, testConfig(t), requestFunc(func(ctx context.Context, r rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
		got <- r.Priority
		return scorerFunc(good).Score(ctx, r)
	}))
	client := NewClient(q.nc)
	for _, priority := range []rewardmodel.Priority{"", rewardmodel.PriorityBulk} {
		r := request("fine")
		r.Priority = priority
		_, err := client.Score(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, priority, <-got)
	}
	r := request("fine")
	r.Priority = "soon"
	_, err := client.Score(t.Context(), r)
	var input *rewardmodel.InputError
	require.ErrorAs(t, err, &input)
	require.Equal(t, HeaderPriority, input.Field)
}
