package fleet

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"assay/lab/load"
	"assay/rewardmodel/tokenizer"
	"assay/segmenter"
	"assay/sidecar/cli"
)

// Command groups the benchmarks that size a fleet.
type Command struct {
	Replica  replicaCmd  `cmd:"" help:"Load one running service with responses of several lengths, over HTTP and NATS streams."`
	Broker   brokerCmd   `cmd:"" help:"Measure the throughput of NATS, with a scorer that takes no time."`
	Load     loadCmd     `cmd:"" help:"Stream responses at given times to running replicas, and wait for their rewards."`
	Simulate simulateCmd `cmd:"" help:"Simulate replicas that get the same responses at the same times."`
}

// arrivalFlags specify when responses are published.
type arrivalFlags struct {
	Count int           `default:"2000" help:"Responses (${default})."`
	Rate  float64       `default:"0" help:"Responses per second at random times (Poisson); 0: in bursts."`
	Burst int           `default:"0" help:"Responses per burst; 0: all in one."`
	Every time.Duration `default:"1m" help:"Interval of the bursts: the time of a step of the trainer (${default})."`
	Seed  uint64        `default:"1" help:"Seed of random times and lengths (${default})."`
}

func (f arrivalFlags) validate() error {
	if f.Count < 1 || f.Rate < 0 || f.Burst < 0 || f.Every < 0 {
		return cli.Usage(errors.New("--count takes a positive number, --rate, --burst and --every 0 or more"))
	}
	return nil
}

// times returns when each response is published; the same seed gives the same.
func (f arrivalFlags) times() []time.Duration {
	if f.Rate > 0 {
		return load.Poisson(rand.New(rand.NewPCG(f.Seed, 2)), f.Count, f.Rate)
	}
	size := f.Burst
	if size == 0 {
		size = f.Count
	}
	return load.Bursts(f.Count, size, f.Every)
}

// readTexts reads at most limit responses, without those that have no text; 0: all.
func readTexts(a *cli.App, f cli.InputFlags, limit int) ([]string, error) {
	in, err := f.Open(a)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var texts []string
	for r, err := range cli.Records(a, f, in, f.Item) {
		if err != nil {
			return nil, err
		}
		if r.Value.Response == nil {
			continue
		}
		if texts = append(texts, *r.Value.Response); len(texts) == limit {
			break
		}
	}
	if len(texts) == 0 {
		return nil, cli.Usage(errors.New("the input has no response"))
	}
	return texts, nil
}

// sequenceLengths are the tokens of each sequence of a text, special tokens included.
func sequenceLengths(ctx context.Context, tok *tokenizer.Tokenizer, text string, maxLength int) ([]int, error) {
	room := maxLength - tok.Special()
	spans, err := segmenter.Segment(ctx, text)
	if err == nil {
		spans, err = segmenter.Limit(ctx, text, spans, room, tok.Counter(ctx))
	}
	var lengths []int
	for _, span := range spans {
		lengths = append(lengths, min(len(tok.IDs(text[span.Start:span.End])), room)+tok.Special())
	}
	return lengths, err
}
