package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"assay/queue"
	"assay/rewardmodel"
)

// scoreCmd scores a file of responses, with a model of its own or through a
// running service.
type scoreCmd struct {
	inputFlags
	offsetFlag
	Reward      string        `default:"compliance" enum:"compliance,logit,raw" help:"Scale of the reward (${enum})."`
	Aggregate   string        `default:"max" enum:"max,topk,noisy_or,mean" help:"How the violations of the instances become that of the response (${enum})."`
	TopK        int           `default:"3" help:"The k of --aggregate topk."`
	Instances   bool          `default:"true" negatable:"" help:"List the instances in each result."`
	Reasoning   string        `default:"skip" enum:"skip,score" help:"What happens to <think> blocks (${enum})."`
	Timeout     time.Duration `default:"5m" help:"Longest wait for one answer of a service."`
	DataDir     string        `default:"${data_dir}" placeholder:"DIR" help:"Data directory of a private service on this machine, where its token is (${default})."`
	denseFlags  `group:"Dense rewards:"`
	natsFlags   `group:"Score through a running service instead of a model of one's own:"`
	modelFlags  `group:"Model:"`
	scorerFlags `group:"Model:"`
	policyFlags `group:"Model:"`
}

// Help is shown by --help.
func (*scoreCmd) Help() string {
	return `Examples:

    echo '{"id":"a","response":"Happy to help. You fool."}' | assay score
    assay score responses.jsonl --no-instances > results.jsonl
    assay score responses.txt --text --nats-url nats://127.0.0.1:4222
    assay score rollouts.jsonl --dense shaped --gamma 0.99 --policy-tokenizer policy=./Qwen --tokenizer policy

Each line {"id"?,"prompt"?,"response"} (or "messages", or "instances") becomes one result, in order.
With --dense, a line may give "token_offsets":[[start,end],...] of its response.`
}

// scorerFlags bound what a scorer does and keeps.
type scorerFlags struct {
	CacheBytes     byteSize `default:"64MiB" placeholder:"BYTES" help:"Memory for the scores of instances that come again (${default}); 0: no cache."`
	MaxInstances   int      `default:"4096" help:"Instances of a response that are scored; the rest is left out and told by \"truncated\"."`
	EmptyReward    float64  `default:"0" help:"Compliance in [0,1] of a response without any text."`
	MaxBatchTokens int      `default:"1024" help:"Tokens of one batch; a GPU takes more at once, such as 16384."`
}

func (f scorerFlags) validate() error {
	switch {
	case f.MaxInstances < 1:
		return usageError{fmt.Errorf("--max-instances is %d; give at least 1", f.MaxInstances)}
	case !(f.EmptyReward >= 0 && f.EmptyReward <= 1):
		return usageError{fmt.Errorf("--empty-reward is %v; it must lie in [0,1]", f.EmptyReward)}
	case f.MaxBatchTokens < 1:
		return usageError{fmt.Errorf("--max-batch-tokens is %d; give at least 1", f.MaxBatchTokens)}
	}
	return nil
}

func (f scorerFlags) config() rewardmodel.ScorerConfig {
	return rewardmodel.ScorerConfig{
		CacheBytes: int64(f.CacheBytes), MaxInstances: f.MaxInstances,
		EmptyReward: f.EmptyReward, MaxBatchTokens: f.MaxBatchTokens,
	}
}

// unbounded is the queue of a scorer whose only caller bounds itself.
const unbounded = 1 << 40

// Run is called by kong.
func (c *scoreCmd) Run(a *app) (err error) {
	options := rewardmodel.Options{
		Reward: rewardmodel.Reward(c.Reward), Aggregate: rewardmodel.Aggregate(c.Aggregate),
		OffsetUnit: c.unit(), Reasoning: rewardmodel.Reasoning(c.Reasoning),
		Instances: &c.Instances, TopK: &c.TopK,
	}
	if c.TopK < 1 {
		return usageError{fmt.Errorf("--top-k is %d; give at least 1", c.TopK)}
	}
	if err := c.denseFlags.set(&options); err != nil {
		return err
	}
	in, err := c.inputFlags.open(a)
	if err != nil {
		return err
	}
	defer in.Close()
	scorer, stop, err := c.scorer(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()

	shown := a.progress("responses", in.size)
	p := pipeline{
		scorer: scorer, options: options, idle: in.idle,
		out: newLineWriter(a.stdout), progress: shown,
	}
	if c.SkipBad {
		p.skip = a.skipped
	}
	if err := p.run(a.ctx, records(a, c.inputFlags, in, c.item), in.name); err != nil {
		return err
	}
	shown.finish()
	return nil
}

// scorer is a connection to a service, or else the model; stop ends it.
func (c *scoreCmd) scorer(a *app) (scorer, func() error, error) {
	if c.NatsURL != "" {
		nc, err := connect(a, c.natsFlags.privateConfig(c.DataDir))
		if err != nil {
			return nil, nil, err
		}
		return &remote{queue.NewClient(nc), c.Timeout}, func() error { nc.Close(); return nil }, nil
	}
	if err := c.scorerFlags.validate(); err != nil {
		return nil, nil, err
	}
	cfg := c.scorerFlags.config()
	cfg.MaxQueueTokens = unbounded
	var err error
	if cfg.PolicyTokenizers, err = c.policyFlags.load(); err != nil {
		return nil, nil, err
	}
	m, err := c.modelFlags.open()
	if err != nil {
		return nil, nil, err
	}
	serving, err := m.load(a.ctx, cfg, nil)
	if err := errors.Join(err, m.close()); err != nil {
		return nil, nil, err
	}
	return serving, serving.close, nil
}

// remote is a service that answers within timeout.
type remote struct {
	scorer
	timeout time.Duration
}

func (r *remote) Score(ctx context.Context, req rewardmodel.Request) (rewardmodel.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	return r.scorer.Score(ctx, req)
}

// natsFlags name an external NATS server and who we are to it.
type natsFlags struct {
	NatsURL    string `name:"nats-url" placeholder:"URL" help:"External NATS server or cluster, such as nats://HOST:4222."`
	NatsCreds  string `placeholder:"FILE" help:"Credentials file for --nats-url."`
	NatsNkey   string `name:"nats-nkey" placeholder:"FILE" help:"NKey seed file for --nats-url."`
	NatsToken  string `placeholder:"TOKEN" help:"Token of the NATS server; the embedded one then asks its clients for it."`
	NatsCA     string `name:"nats-ca" placeholder:"FILE" help:"PEM file of the authorities that sign the NATS server's certificate."`
	NatsCert   string `placeholder:"FILE" help:"PEM file of the client certificate for --nats-url."`
	NatsKey    string `placeholder:"FILE" help:"PEM file of the key of --nats-cert."`
	NatsDomain string `name:"nats-jetstream-domain" placeholder:"NAME" help:"JetStream domain of the streams, where --nats-url is a leaf node with a JetStream of its own."`
}

func (f natsFlags) config() queue.ConnConfig {
	return queue.ConnConfig{
		URL: f.NatsURL, Creds: f.NatsCreds, NKey: f.NatsNkey, Token: f.NatsToken,
		CA: f.NatsCA, Cert: f.NatsCert, Key: f.NatsKey, Domain: f.NatsDomain,
	}
}

// privateConfig is config with the token of a private service on this machine,
// where no other credentials are given. That is another one after each restart of
// the service, and is read for each connection.
func (f natsFlags) privateConfig(dataDir string) queue.ConnConfig {
	cfg := f.config()
	others := f.NatsToken != "" || f.NatsCreds != "" || f.NatsNkey != "" || f.NatsCert != ""
	if f.NatsURL == "" || others || !maySeePrivateToken(strings.Split(f.NatsURL, ",")...) {
		return cfg
	}
	cfg.ReadToken = func() string { return readPrivateToken(dataDir) }
	return cfg
}

// connectWithin is how long a command waits for the server; a service waits on.
const connectWithin = 10 * time.Second

func connect(a *app, cfg queue.ConnConfig) (*nats.Conn, error) {
	ctx, cancel := context.WithTimeout(a.ctx, connectWithin)
	defer cancel()
	nc, err := queue.Connect(ctx, cfg, a.log.Level(max(a.log.GetLevel(), zerolog.WarnLevel)))
	return nc, natsError(err)
}
