package fleet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"text/tabwriter"
	"time"

	"assay/lab/fleetsim"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/tokenizer"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

// simulateCmd runs package fleetsim.
type simulateCmd struct {
	cli.InputFlags
	arrivalFlags
	Model string `default:"models/default" placeholder:"DIR" help:"Directory with the tokenizer for the input, or its name under models/ (${default})."`

	Tokens     float64 `default:"800" group:"Responses, without an input:" help:"Mean tokens of a response (${default})."`
	TokensCV   float64 `name:"tokens-cv" default:"0.5" group:"Responses, without an input:" help:"Standard deviation over mean of the tokens of a response (lognormal, ${default})."`
	Sentence   float64 `default:"22" group:"Responses, without an input:" help:"Mean tokens of a sentence (${default})."`
	SentenceCV float64 `name:"sentence-cv" default:"0.6" group:"Responses, without an input:" help:"Standard deviation over mean of the tokens of a sentence (lognormal, ${default})."`

	Replicas       []int         `default:"1,2,4,8,16,32,64,128,256,500" group:"Fleet:" help:"Sizes of the fleet (${default})."`
	Token          time.Duration `required:"" group:"Fleet:" help:"Time of a replica per token, as assay-lab bench fleet replica prints it."`
	Batch          time.Duration `default:"2ms" group:"Fleet:" help:"Time of a replica per batch, in addition to its tokens (${default})."`
	Response       time.Duration `default:"0s" group:"Fleet:" help:"Time of a replica per response, in addition to its tokens (${default})."`
	Publish        time.Duration `default:"15us" group:"Fleet:" help:"Time of the broker to store a response, as assay-lab bench fleet broker measures it (${default})."`
	Deliver        time.Duration `default:"15us" group:"Fleet:" help:"Time of the broker to deliver a response (${default})."`
	Settle         time.Duration `default:"30us" group:"Fleet:" help:"Time of the broker to store a reward and acknowledge its response (${default})."`
	Hop            time.Duration `default:"250us" group:"Fleet:" help:"Network latency of a message from or to the broker (${default})."`
	MaxInFlight    int           `default:"256" group:"Fleet:" help:"As of assay serve (${default})."`
	MaxAckPending  int           `default:"4096" group:"Fleet:" help:"As of assay serve (${default})."`
	AckWait        time.Duration `default:"10s" group:"Fleet:" help:"As of assay serve (${default})."`
	MaxBatchTokens int           `default:"1024" group:"Fleet:" help:"As of assay serve (${default})."`
	KillEvery      time.Duration `default:"0s" group:"Fleet:" help:"Interval at which one replica after another is killed; 0: none."`
	Down           time.Duration `default:"20s" group:"Fleet:" help:"Time until another process replaces a killed one (${default})."`
}

// Help is shown by --help.
func (*simulateCmd) Help() string {
	return `Example:

    assay-lab bench fleet simulate --token 150us --count 24576 --burst 8192 --every 60s
    assay-lab bench fleet simulate --token 150us --text reviews.txt --rate 20 --replicas 1,2,4

Without an input, lengths are random; with one, they are those of its responses. Prints a row for each size of the fleet:
rewards/s, the latency from publishing to the reward, the share of time in which models and the broker are busy, and the
share in which --max-ack-pending withheld responses from replicas with free slots.`
}

// Run is called by kong.
func (c *simulateCmd) Run(a *cli.App) error {
	if err := c.validate(); err != nil {
		return err
	}
	if min(c.Tokens, c.Sentence) < 1 || min(c.TokensCV, c.SentenceCV) < 0 {
		return cli.Usage(errors.New("--tokens and --sentence take 1 or more, --tokens-cv and --sentence-cv 0 or more"))
	}
	work, err := c.work(a)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "replicas\tseconds\trewards/s\ttokens/s\tp50 s\tp99 s\tmodels\tbroker\tack limit\tagain\t")
	for _, n := range c.Replicas {
		r, err := fleetsim.Run(c.fleet(n, work[len(work)-1].At), work)
		if err != nil {
			return cli.Usage(err)
		}
		fmt.Fprintf(table, "%d\t%.1f\t%.1f\t%.0f\t%.2f\t%.2f\t%.0f%%\t%.0f%%\t%.0f%%\t%d\t\n", n, r.Makespan.Seconds(), r.Throughput(),
			float64(r.Tokens)/r.Makespan.Seconds(), r.Percentile(50).Seconds(), r.Percentile(99).Seconds(),
			100*r.Busy, 100*r.BrokerBusy, 100*r.AckLimited, r.Redelivered)
	}
	return table.Flush()
}

// work samples the responses, or cycles through the lengths of the input.
func (c *simulateCmd) work(a *cli.App) ([]fleetsim.Response, error) {
	times := c.times()
	work := make([]fleetsim.Response, len(times))
	if c.File == "" {
		rng := rand.New(rand.NewPCG(c.Seed, 3))
		response, sentence := fleetsim.Lognormal{Mean: c.Tokens, CV: c.TokensCV}, fleetsim.Lognormal{Mean: c.Sentence, CV: c.SentenceCV}
		for i, at := range times {
			work[i] = fleetsim.Response{At: at, Sequences: response.Response(rng, sentence, 0)}
		}
		return work, nil
	}
	dir, err := localmodel.Find("--model", c.Model)
	if err != nil {
		return nil, err
	}
	ckpt, err := checkpoint.Open(dir)
	if err != nil {
		return nil, cli.Usage(err)
	}
	defer ckpt.Close()
	tok, err := tokenizer.Load(dir)
	if err != nil {
		return nil, cli.Usage(err)
	}
	texts, err := readTexts(a, c.InputFlags, c.Count)
	if err != nil {
		return nil, err
	}
	lengths := make([][]int, 0, len(texts))
	for _, text := range texts {
		of, err := sequenceLengths(a.Context, tok, text, ckpt.MaxLength())
		if err != nil {
			return nil, err
		}
		if len(of) > 0 {
			lengths = append(lengths, of)
		}
	}
	if len(lengths) == 0 {
		return nil, cli.Usage(errors.New("the input has no text"))
	}
	for i, at := range times {
		work[i] = fleetsim.Response{At: at, Sequences: lengths[i%len(lengths)]}
	}
	return work, nil
}

// fleet is a fleet of that size, whose replicas are killed one after another until the last response is published.
func (c *simulateCmd) fleet(replicas int, last time.Duration) fleetsim.Fleet {
	f := fleetsim.Default()
	f.Replicas, f.MaxAckPending, f.AckWait, f.Seed = replicas, c.MaxAckPending, c.AckWait, c.Seed
	f.Replica.Cost = fleetsim.Cost{Batch: c.Batch, Token: c.Token, Response: c.Response}
	f.Replica.MaxInFlight, f.Replica.BatchTokens = c.MaxInFlight, c.MaxBatchTokens
	f.Broker = fleetsim.Broker{Publish: c.Publish, Deliver: c.Deliver, Settle: c.Settle, Hop: c.Hop}
	for at := c.KillEvery; c.KillEvery > 0 && at <= last; at += c.KillEvery {
		f.Kills = append(f.Kills, fleetsim.Kill{Replica: len(f.Kills) % replicas, At: at, Down: c.Down})
	}
	return f
}
