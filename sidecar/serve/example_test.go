package serve_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"

	"assay/sidecar/processtest"
	"assay/sidecar/serve"
)

// A program that embeds the service on a free port, without NATS, and requests a reward.
func Example() {
	dir, err := os.MkdirTemp("", "model")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	model := filepath.Join(dir, "tiny")
	if err := processtest.WriteTinyModel(model, nil); err != nil { // any checkpoint
		panic(err)
	}

	cfg := serve.DefaultConfig()
	cfg.Listen = "127.0.0.1:0"
	cfg.NATS = false
	cfg.Model.Model = model
	cfg.Model.Threads = 1
	s, err := serve.New(cfg, zerolog.New(io.Discard))
	if err != nil {
		panic(err)
	}
	s.Start()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Ready(ctx); err != nil {
		panic(err)
	}

	client := &http.Client{Transport: &http.Transport{}}
	body := strings.NewReader(`{"responses":[{"id":"r1","response":"Have a good trip. Goodbye."}]}`)
	response, err := client.Post(s.URL()+"/v1/score", "application/json", body)
	if err != nil {
		panic(err)
	}
	var answer struct {
		Model   struct{ Version string }
		Results []struct {
			ID        string
			Reward    float64
			Instances []struct{ Start, End int }
		}
	}
	err = json.UnmarshalRead(response.Body, &answer, json.MatchCaseInsensitiveNames(true))
	response.Body.Close()
	client.CloseIdleConnections()
	if err != nil {
		panic(err)
	}
	result := answer.Results[0]
	fmt.Println(answer.Model.Version, result.ID, len(result.Instances), result.Reward > 0)

	fmt.Println(s.Shutdown())
	// Output:
	// tiny-1 r1 2 true
	// <nil>
}
