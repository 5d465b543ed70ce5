package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"assay/bench"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/tokenizer"
	"assay/sidecar/childproc"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

// benchPeersCmd measures this service beside others.
type benchPeersCmd struct {
	Dir         string        `default:"bench-peers" placeholder:"DIR" help:"Folder for what the benchmark keeps: Python environments, exported models, logs and results.jsonl (${default})."`
	Responses   int           `default:"2000" help:"Texts of 1 to 60 sentences that are drawn from it."`
	Models      []string      `default:"random-roberta-base,models/default" placeholder:"DIR" help:"Checkpoint folders, or their names below models/; random-roberta-base is made: its shape, random weights (${default})."`
	Only        []string      `placeholder:"NAME" help:"Only these servers; assay stands for assay-fp32, assay-bf16 and assay-int8, and so on."`
	Protocols   []string      `placeholder:"NAME" help:"Only these protocols: /v1/score, /get_reward, NATS, /classify."`
	Concurrency []int         `default:"1,8,64,256" help:"Single responses in flight (${default})."`
	Bulk        int           `default:"512" help:"Responses of a large request; 0: no such case."`
	Repetitions int           `default:"3" help:"Times that each server takes its turn; every other time in reverse order."`
	Limit       time.Duration `default:"0s" help:"Send no request of a case after this time; 0: send them all."`
	Threads     int           `default:"0" help:"Threads of each server; 0 takes all processors that this process may use."`
	Python      string        `default:"python3" help:"Interpreter that makes the environments of the peers."`
	Assay       string        `placeholder:"FILE" help:"Binary of assay to measure. Default: this one."`
	workFlag
	growthFlags
	List   bool `help:"Start nothing; print the servers."`
	Report bool `help:"Start nothing; print the tables of what is there."`
}

// workFlag names the texts that are scored.
type workFlag struct {
	Work string `placeholder:"FILE" help:"Texts to score, JSON lines with the field text, gzipped or not. Default: imdb/test.jsonl.gz in the folder that $$ASSAY_DATA names, else in ../shared/data."`
}

// growthFlags ask for the cost as the work grows, instead of speed.
type growthFlags struct {
	Grow      bool `help:"Measure how the cost of a response grows, instead: with the number of responses, their sentences, and the requests that wait."`
	Most      int  `default:"100000" help:"Most responses, with --grow."`
	Sentences int  `default:"10000" help:"Most sentences of a response, with --grow."`
	Queue     int  `default:"1024" help:"Most requests that wait at once, with --grow."`
}

// Help is shown by --help.
func (*benchPeersCmd) Help() string {
	return `Example:

    assay bench peers --responses 2000
    assay bench peers --only assay,transformers-bf16 --responses 32 --concurrency 8 --bulk 16 --repetitions 1
    assay bench peers --grow --only assay-bf16 --models models/default

Starts transformers behind FastAPI as OpenRLHF's reward server runs it, ONNX Runtime behind the same server, infinity,
and assay one after another on the same processors, sends each the same work, and prints a table as Markdown for each
model and case. Every measurement is kept in results.jsonl at once: stop it at any time, and the next call goes on.
The Python packages of the peers are installed into --dir at first. "Ranks" is the correlation of the order of the
scores with that of transformers in fp32; "others' cores" tells how many cores the rest of the machine kept busy: on a
machine that is not quiet, trust the CPU seconds alone. It needs Linux.`
}

// randomModel is the name of a model that is made.
const randomModel = "random-roberta-base"

// Run is called by kong.
func (c *benchPeersCmd) Run(a *cli.App) error {
	servers, err := c.servers()
	if err != nil {
		return cli.Usage(err)
	}
	if c.List {
		for _, s := range servers {
			fmt.Fprintln(a.Stdout, s.Name)
		}
		return nil
	}
	if slices.Min(append(slices.Clone(c.Concurrency), c.Responses, c.Repetitions)) < 1 || c.Bulk < 0 {
		return cli.Usage(errors.New("--concurrency, --responses and --repetitions take positive numbers, --bulk 0 or more"))
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return cli.Usage(fmt.Errorf("--dir: %w", err))
	}
	records, err := bench.OpenRecords(filepath.Join(c.Dir, "results.jsonl"))
	if err != nil {
		return cli.Usage(fmt.Errorf("--dir: %w", err))
	}
	if !c.Report {
		err = c.measure(a, servers, records)
	}
	return errors.Join(err, bench.WriteTable(a.Stdout, records.All()))
}

// servers are those of --only.
func (c *benchPeersCmd) servers() ([]bench.Server, error) {
	all := bench.Servers()
	if len(c.Only) == 0 {
		return all, nil
	}
	wanted := map[string]bool{}
	for _, only := range c.Only {
		found := false
		for _, s := range all {
			if s.Name == only || strings.HasPrefix(s.Name, only+"-") {
				wanted[s.Name], found = true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("--only %s: no such server; --list shows them", only)
		}
	}
	return slices.DeleteFunc(all, func(s bench.Server) bool { return !wanted[s.Name] }), nil
}

func (c *benchPeersCmd) measure(a *cli.App, servers []bench.Server, records *bench.Records) error {
	ctx, stop := a.UntilSignal()
	defer stop()
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return err
	}
	cfg := bench.Config{
		Lab:     bench.Lab{Dir: dir, Python: c.Python, Say: func(message string) { a.Log.Info().Msg(message) }},
		Servers: servers, Fronts: c.Protocols, Repetitions: c.Repetitions, Limit: c.Limit, StartLimit: 5 * time.Minute,
		Threads: c.Threads, Cores: runtime.NumCPU(), Assay: c.Assay,
		Progress: func(r bench.Record) {
			a.Log.Info().Str("model", r.Model).Str("server", r.Server).Str("protocol", r.Front).Str("case", r.Case).Int("repetition", r.Repetition).
				Int("responses", r.Responses).Int("failed", r.Failed).Float64("seconds", r.Seconds).Float64("cpu_seconds", r.CPU).Str("error", r.Error).Msg("measured")
		},
	}
	if cfg.Threads == 0 {
		cfg.Threads = runtime.GOMAXPROCS(0) // which follows the container's limit
	}
	if cfg.Assay == "" {
		if cfg.Assay, err = childproc.OwnProgram(); err != nil {
			return err
		}
	}
	texts, err := c.sample(ctx, c.Responses)
	if err != nil {
		return err
	}
	if cfg.Versions, err = versionsOf(ctx, cfg.Assay); err != nil {
		return cli.Usage(fmt.Errorf("--assay: %w", err))
	}
	models, err := c.models(ctx, cfg.Lab)
	if err != nil {
		return err
	}
	cfg.Cases = func(ctx context.Context, m bench.Model) ([]bench.Case, error) { return c.cases(ctx, m, texts) }
	return bench.Run(ctx, cfg, models, records)
}

// sample draws at most n texts, always the same.
func (f workFlag) sample(ctx context.Context, n int) ([]string, error) {
	path := f.Work
	if path == "" {
		data := os.Getenv("ASSAY_DATA")
		if data == "" {
			data = filepath.Join("..", "shared", "data")
		}
		path = filepath.Join(data, "imdb", "test.jsonl.gz")
	}
	texts, err := bench.Sample(ctx, path, n, 1)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--work: %w", err))
	}
	return texts, nil
}

func (c *benchPeersCmd) cases(ctx context.Context, m bench.Model, texts []string) ([]bench.Case, error) {
	work := make([]bench.Response, len(texts))
	for i, text := range texts {
		var err error
		if work[i], err = bench.NewResponse(ctx, text, m.Tokenizer, m.MaxLength); err != nil {
			return nil, err
		}
	}
	if !c.Grow {
		return bench.SpeedCases(work, c.Concurrency, c.Bulk), nil
	}
	return bench.GrowthCases(ctx, work, max(c.Bulk, 1), bench.Growth{Responses: c.Most, Sentences: c.Sentences, Queue: c.Queue}, m.Tokenizer, m.MaxLength)
}

func (c *benchPeersCmd) models(ctx context.Context, lab bench.Lab) ([]bench.Model, error) {
	models := make([]bench.Model, len(c.Models))
	for i, name := range c.Models {
		dir, err := localmodel.Find("--models", name)
		if name == randomModel {
			var vocabulary string
			if vocabulary, err = localmodel.Find("--models", "models/default"); err == nil {
				dir, err = lab.RandomModel(ctx, vocabulary)
			}
		}
		if err == nil {
			models[i], err = benchModel(dir)
		}
		if err != nil {
			return nil, fmt.Errorf("--models %s: %w", name, err)
		}
	}
	return models, nil
}

// benchModel reads what the benchmark needs to know of a checkpoint.
func benchModel(dir string) (m bench.Model, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return m, err
	}
	ckpt, err := checkpoint.Open(dir)
	if err != nil {
		return m, err
	}
	defer ckpt.Close()
	violation, compliant, single, err := ckpt.Labels()
	if err != nil {
		return m, err
	}
	if single {
		return m, errors.New("has one output; the servers compared here need one for each label")
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		return m, err
	}
	shape := bench.Shape{Hidden: ckpt.Config.HiddenSize, Layers: ckpt.Config.Layers, Intermediate: ckpt.Config.Intermediate}
	return bench.Model{
		Name: filepath.Base(dir), Dir: dir, Shape: shape, MaxLength: ckpt.MaxLength(),
		Violation: violation, Compliant: compliant, Tokenizer: tok,
	}, nil
}

// versionsOf asks a binary of assay what it is made of.
func versionsOf(ctx context.Context, binary string) (map[string]string, error) {
	out, err := exec.CommandContext(ctx, binary, "version").Output()
	if err != nil {
		return nil, fmt.Errorf("%s version: %w", binary, err)
	}
	versions := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		switch value = strings.TrimSpace(value); name {
		case "version":
			versions["assay"] = value
		case "commit", "go":
			versions["assay "+name] = value
		}
	}
	return versions, nil
}
