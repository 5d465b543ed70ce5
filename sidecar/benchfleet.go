package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"assay/rewardmodel"
	"assay/rewardmodel/tokenizer"
	"assay/segmenter"
	"assay/sidecar/cli"
	"assay/sidecar/fleetsim"
)

// benchFleetCmd groups what tells how many replicas a training needs.
type benchFleetCmd struct {
	Replica  benchFleetReplicaCmd  `cmd:"" help:"Load one running service with responses of several lengths, over HTTP and NATS streams."`
	Broker   benchFleetBrokerCmd   `cmd:"" help:"Measure what NATS alone can do, with a scorer that costs nothing."`
	Load     benchFleetLoadCmd     `cmd:"" help:"Stream responses at given times to the replicas that run, and wait for their rewards."`
	Simulate benchFleetSimulateCmd `cmd:"" help:"Simulate replicas that are given the same responses at the same times."`
}

// arrivalFlags say when responses are published.
type arrivalFlags struct {
	Count int           `default:"2000" help:"Responses."`
	Rate  float64       `default:"0" help:"Responses a second at random times (Poisson); 0: in bursts."`
	Burst int           `default:"0" help:"Responses of a burst; 0: all at once."`
	Every time.Duration `default:"1m" help:"From one burst to the next: the time of a step of the trainer."`
	Seed  uint64        `default:"1" help:"Of random times and lengths."`
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
		return fleetsim.Poisson(rand.New(rand.NewPCG(f.Seed, 2)), f.Count, f.Rate)
	}
	size := f.Burst
	if size == 0 {
		size = f.Count
	}
	return fleetsim.Bursts(f.Count, size, f.Every)
}

// readTexts reads at most most responses; those without a text of their own do not count.
func readTexts(a *cli.App, f cli.InputFlags, most int) ([]string, error) {
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
		if texts = append(texts, *r.Value.Response); len(texts) == most {
			break
		}
	}
	if len(texts) == 0 {
		return nil, cli.Usage(errors.New("the input holds no response"))
	}
	return texts, nil
}

// sequenceLengths are the tokens of each sequence that the model reads of a text, special ones included.
func sequenceLengths(ctx context.Context, tok *tokenizer.Tokenizer, text string, most int) ([]int, error) {
	room := most - tok.Special()
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

func items(texts []string) []rewardmodel.Item {
	out := make([]rewardmodel.Item, len(texts))
	for i := range texts {
		out[i].Response = &texts[i]
	}
	return out
}

// metricSums adds up, over its labels, each of the named metrics of a service.
func metricSums(ctx context.Context, base string, names ...string) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", req.URL, answer.Status)
	}
	sums := map[string]float64{}
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		line := lines.Bytes()
		end := bytes.IndexAny(line, "{ ")
		if end < 0 {
			continue
		}
		for _, name := range names {
			if string(line[:end]) == name {
				value, err := strconv.ParseFloat(string(line[bytes.LastIndexByte(line, ' ')+1:]), 64)
				if err != nil {
					return nil, fmt.Errorf("%s: %s: %w", req.URL, name, err)
				}
				sums[name] += value
			}
		}
	}
	for _, name := range names {
		if _, ok := sums[name]; !ok {
			return nil, fmt.Errorf("%s tells no %s; is it assay?", req.URL, name)
		}
	}
	return sums, nil
}

// cpuTime is what this process has computed so far.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
