package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"assay/queue"
	"assay/rewardmodel"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

// Score scores a file of responses, with a model in this process or through a
// running service.
type Score struct {
	cli.InputFlags
	offsetFlag
	Reward                 string             `default:"compliance" enum:"compliance,logit,raw" help:"Reward scale (${enum})."`
	Aggregate              string             `default:"max" enum:"max,topk,noisy_or,mean" help:"Aggregation of the instance violations into that of the response (${enum})."`
	TopK                   int                `default:"${top_k}" help:"Number of instances that --aggregate topk averages."`
	Instances              bool               `default:"true" negatable:"" help:"Include the instances in each result."`
	Reasoning              string             `default:"skip" enum:"skip,score" help:"Whether to skip or score <think> blocks (${enum})."`
	Aspects                bool               `help:"Include the result of each aspect (rule) of the model."`
	Combination            string             `enum:",min,sum,lexicographic" default:"" help:"Combination of the aspects into one reward (min, sum or lexicographic); default: that of the model."`
	Weights                map[string]float64 `name:"weight" placeholder:"ASPECT=WEIGHT" help:"Weights of aspects in the combination; those of the others are the model's. Repeat for several."`
	Timeout                time.Duration      `default:"5m" help:"Timeout of each request to a service."`
	DataDir                string             `default:"${data_dir}" placeholder:"DIR" help:"Data directory of a private service on this machine, for its token (${default})."`
	denseFlags             `group:"Dense rewards:"`
	cli.NATSFlags          `group:"Score through a running service instead of a local model:"`
	localmodel.Flags       `group:"Model:"`
	localmodel.ScorerFlags `group:"Model:"`
	localmodel.PolicyFlags `group:"Model:"`
}

// Help is shown by --help.
func (*Score) Help() string {
	return `Examples:

    echo '{"id":"a","response":"Happy to help. You fool."}' | assay score
    assay score responses.jsonl --no-instances > results.jsonl
    assay score responses.txt --text --nats-url nats://127.0.0.1:4222
    assay score rollouts.jsonl --dense shaped --gamma 0.99 --policy-tokenizer policy=./Qwen --tokenizer policy

Each line {"id"?,"prompt"?,"response"} (or "messages", or "instances" instead of "response") gives one result, in
order. With --dense, a line may have the "token_offsets":[[start,end],...] of its response.`
}

// Run is called by kong.
func (c *Score) Run(a *cli.App) (err error) {
	options := rewardmodel.Options{
		Reward: rewardmodel.Reward(c.Reward), Aggregate: rewardmodel.Aggregate(c.Aggregate),
		OffsetUnit: c.unit(), Reasoning: rewardmodel.Reasoning(c.Reasoning),
		Instances: &c.Instances, TopK: &c.TopK,
		Aspects: c.Aspects, Combination: rewardmodel.Combination(c.Combination), Weights: c.Weights,
	}
	if c.TopK < 1 {
		return cli.Usage(fmt.Errorf("--top-k is %d; give at least 1", c.TopK))
	}
	if err := c.denseFlags.set(&options); err != nil {
		return err
	}
	in, err := c.InputFlags.Open(a)
	if err != nil {
		return err
	}
	defer in.Close()
	scorer, stop, err := c.scorer(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()

	shown := a.NewProgress("responses", in.Size)
	p := pipeline{
		scorer: scorer, options: options, idle: in.Idle,
		out: cli.NewLineWriter(a.Stdout), progress: shown,
	}
	if c.SkipBad {
		p.skip = a.ReportSkipped
	}
	if err := p.run(a.Context, cli.Records(a, c.InputFlags, in, c.Item), in.Name); err != nil {
		return err
	}
	shown.Finish()
	return nil
}

// scorer connects to a service or loads a model. Call the returned function to close it.
func (c *Score) scorer(a *cli.App) (scorer, func() error, error) {
	if c.NatsURL != "" {
		nc, err := cli.Connect(a, c.NATSFlags.PrivateConfig(c.DataDir))
		if err != nil {
			return nil, nil, err
		}
		return &remote{queue.NewClient(nc), c.Timeout}, func() error { nc.Close(); return nil }, nil
	}
	if err := c.ScorerFlags.Check(); err != nil {
		return nil, nil, err
	}
	cfg := c.ScorerFlags.Config()
	cfg.MaxQueueTokens = localmodel.UnboundedQueue
	var err error
	if cfg.PolicyTokenizers, err = c.PolicyFlags.Load(); err != nil {
		return nil, nil, err
	}
	m, err := c.Flags.Config().Open()
	if err != nil {
		return nil, nil, err
	}
	serving, err := m.Load(a.Context, cfg, nil)
	if err := errors.Join(err, m.Close()); err != nil {
		return nil, nil, err
	}
	return serving, serving.Close, nil
}

// remote scores through a service, with a timeout for each request.
type remote struct {
	scorer
	timeout time.Duration
}

func (r *remote) Score(ctx context.Context, req rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	return r.scorer.Score(ctx, req)
}
