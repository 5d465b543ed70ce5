package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"testing/fstest"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"assay/queue"
	"assay/queue/embedded"
	"assay/rewardmodel"
	"assay/rewardmodel/retrain"
)

// polite replaces the model.
type polite struct{}

func (polite) Score(_ context.Context, req rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	answer := rewardmodel.ScoreResponse{Model: rewardmodel.ModelInfo{Name: "polite", Version: "1"}}
	for _, item := range req.Responses {
		answer.Results = append(answer.Results, rewardmodel.Result{ID: item.ID, Reward: 0.9, Compliant: true})
	}
	return answer, nil
}

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "assay")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	cfg := queue.Config{Server: embedded.Config{Listen: "127.0.0.1:0", DataDir: dir}}
	q, err := queue.Open(ctx, cfg, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		log.Fatal(err)
	}
	defer q.Close(ctx)
	if err := q.Start(ctx, polite{}); err != nil {
		log.Fatal(err)
	}

	// Send a request and wait for the reply.
	text := "You are welcome."
	answer, err := queue.NewClient(q.Conn()).Score(ctx, rewardmodel.Request{
		Responses: []rewardmodel.Item{{ID: "a", Response: &text}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Results[0].ID, answer.Results[0].Reward)

	// Or publish, and read rewards as they arrive.
	js, err := jetstream.New(q.Conn())
	if err != nil {
		log.Fatal(err)
	}
	_, err = js.Publish(ctx, "assay.v1.responses.my.job", []byte(`{"response":"You are welcome."}`), jetstream.WithMsgID("b"))
	if err != nil {
		log.Fatal(err)
	}
	rewards, err := js.OrderedConsumer(ctx, queue.StreamRewards, jetstream.OrderedConsumerConfig{})
	if err != nil {
		log.Fatal(err)
	}
	msg, err := rewards.Next()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(msg.Subject(), msg.Headers().Get(queue.HeaderModelVersion))
	// Output:
	// a 0.9
	// assay.v1.rewards.my.job 1
}

// A version is stored, registered and promoted.
func ExampleRegistry() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "assay")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	checkpoint := filepath.Join(dir, "checkpoint")
	if err := os.CopyFS(checkpoint, fstest.MapFS{"config.json": {Data: []byte("{}")}}); err != nil {
		log.Fatal(err)
	}
	cfg := queue.Config{Server: embedded.Config{Listen: "127.0.0.1:0", DataDir: dir}}
	q, err := queue.Open(ctx, cfg, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		log.Fatal(err)
	}
	defer q.Close(ctx)

	registry, err := q.OpenRegistry(ctx)
	if err != nil {
		log.Fatal(err)
	}
	m := retrain.Model{Version: "v1", State: retrain.StatePromoted, By: "gate", Reason: "better on the hold-out"}
	if m.Files, err = registry.Upload(ctx, m.Version, checkpoint); err != nil {
		log.Fatal(err)
	}
	if err := registry.Register(ctx, m); err != nil {
		log.Fatal(err)
	}
	current, err := registry.Current(ctx) // none yet
	if err != nil {
		log.Fatal(err)
	}
	current.Version = m.Version
	if _, err := registry.SetCurrent(ctx, current); err != nil {
		log.Fatal(err)
	}
	_, err = registry.SetCurrent(ctx, current)
	fmt.Println(errors.Is(err, retrain.ErrChanged)) // the revision has changed
	// Another replica downloads it.
	fmt.Println(registry.Download(ctx, m, filepath.Join(dir, "models", m.Version)))
	// Output:
	// true
	// <nil>
}
