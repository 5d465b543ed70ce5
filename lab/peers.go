package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"assay/lab/bench"
	"assay/lab/flags"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/tokenizer"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

// peersCmd compares assay with other reward servers.
type peersCmd struct {
	Dir         string        `default:"bench-peers" placeholder:"DIR" help:"Directory for Python environments, exported models, logs and results.jsonl (${default})."`
	Responses   int           `default:"2000" help:"Texts of 1 to 60 sentences that are sampled from --work (${default})."`
	Models      []string      `default:"random-roberta-base,models/default" placeholder:"DIR" help:"Checkpoint directories, or their names under models/; random-roberta-base is created: its shape, random weights (${default})."`
	Only        []string      `placeholder:"NAME" help:"Measure only these servers; assay means assay-fp32, assay-bf16 and assay-int8, and so on."`
	Protocols   []string      `placeholder:"NAME" help:"Measure only these protocols: /v1/score, /get_reward, NATS, /classify."`
	Concurrency []int         `default:"1,8,64,256" help:"Single responses in flight (${default})."`
	Bulk        int           `default:"512" help:"Responses of a large request (${default}); 0: skip that case."`
	Repetitions int           `default:"3" help:"Runs of each server, every other one in reverse order (${default})."`
	Limit       time.Duration `default:"0s" help:"Stop sending the requests of a case after this time; 0: send all."`
	Threads     int           `default:"0" help:"Threads of each server; 0: all processors that this process may use."`
	Python      string        `default:"python3" help:"Interpreter that creates the environments of the other servers (${default})."`
	flags.Assay
	flags.Work
	growthFlags
	List   bool `help:"Start nothing; list the servers."`
	Report bool `help:"Start nothing; print the tables of the existing results."`
}

// growthFlags select the cost as the work grows, instead of the speed.
type growthFlags struct {
	Grow         bool `help:"Measure how the cost of a response grows with the number of responses, of their sentences, and of waiting requests, instead of the speed."`
	MaxResponses int  `default:"100000" help:"Maximum responses, with --grow (${default})."`
	Sentences    int  `default:"10000" help:"Maximum sentences of a response, with --grow (${default})."`
	Queue        int  `default:"1024" help:"Maximum waiting requests, with --grow (${default})."`
}

// Help is shown by --help.
func (*peersCmd) Help() string {
	return `Example:

    assay-lab bench peers --responses 2000
    assay-lab bench peers --only assay,transformers-bf16 --responses 32 --concurrency 8 --bulk 16 --repetitions 1
    assay-lab bench peers --grow --only assay-bf16 --models models/default

Starts transformers behind FastAPI as OpenRLHF's reward server runs it, ONNX Runtime, OpenVINO and CTranslate2 behind
the same server, infinity, and assay one after another on the same processors, sends each the same work, and prints a
table as Markdown for each model and case. Every measurement is written to results.jsonl immediately: stop it at any time, and the next call
resumes. It first installs the Python packages of the other servers into --dir. "Ranks" is the correlation of the ranks
of the scores with those of transformers in fp32; "others' cores" is the number of cores that the rest of the machine
kept busy: on a busy machine, trust only the CPU seconds. It needs Linux.`
}

// randomModel is the name of a model that is created.
const randomModel = "random-roberta-base"

// calibrationSentences is the size of the set that OpenVINO's quantization is calibrated with: 24 mini-batches of 32.
const calibrationSentences = 24 * 32

// Run is called by kong.
func (c *peersCmd) Run(a *cli.App) error {
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

// servers are those of --only, else all.
func (c *peersCmd) servers() ([]bench.Server, error) {
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

func (c *peersCmd) measure(a *cli.App, servers []bench.Server, records *bench.Records) error {
	ctx, stop := a.UntilSignal()
	defer stop()
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return err
	}
	cfg := bench.Config{
		Dir:     bench.Dir{Path: dir, Python: c.Python, Notify: func(message string) { a.Log.Info().Msg(message) }},
		Servers: servers, Protocols: c.Protocols, Repetitions: c.Repetitions, Limit: c.Limit, StartLimit: flags.StartTimeout,
		Threads: c.Threads, Cores: runtime.NumCPU(),
		Progress: func(r bench.Record) {
			a.Log.Info().Str("model", r.Model).Str("server", r.Server).Str("protocol", r.Protocol).Str("case", r.Case).Int("repetition", r.Repetition).
				Int("responses", r.Responses).Int("failed", r.Failed).Float64("seconds", r.Seconds).Float64("cpu_seconds", r.CPU).Str("error", r.Error).Msg("measured")
		},
	}
	if cfg.Threads == 0 {
		cfg.Threads = runtime.GOMAXPROCS(0) // which follows the container's limit
	}
	if cfg.Assay, err = c.Binary(); err != nil {
		return err
	}
	texts, err := c.Sample(ctx, math.MaxInt)
	if err != nil {
		return err
	}
	texts, rest := texts[:min(c.Responses, len(texts))], texts[min(c.Responses, len(texts)):]
	if cfg.Sentences, err = bench.Sentences(ctx, rest, calibrationSentences); err != nil {
		return err
	}
	if cfg.Versions, err = versionsOf(ctx, cfg.Assay); err != nil {
		return cli.Usage(fmt.Errorf("--assay: %w", err))
	}
	models, err := c.models(ctx, cfg.Dir)
	if err != nil {
		return err
	}
	cfg.Cases = func(ctx context.Context, m bench.Model) ([]bench.Case, error) { return c.cases(ctx, m, texts) }
	return bench.Run(ctx, cfg, models, records)
}

func (c *peersCmd) cases(ctx context.Context, m bench.Model, texts []string) ([]bench.Case, error) {
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
	return bench.GrowthCases(ctx, work, max(c.Bulk, 1), bench.Growth{Responses: c.MaxResponses, Sentences: c.Sentences, Queue: c.Queue}, m.Tokenizer, m.MaxLength)
}

func (c *peersCmd) models(ctx context.Context, dir bench.Dir) ([]bench.Model, error) {
	models := make([]bench.Model, len(c.Models))
	for i, name := range c.Models {
		found, err := localmodel.Find("--models", name)
		if name == randomModel {
			var vocabulary string
			if vocabulary, err = localmodel.Find("--models", "models/default"); err == nil {
				found, err = dir.RandomModel(ctx, vocabulary)
			}
		}
		if err == nil {
			models[i], err = benchModel(found, dir.Path)
		}
		if err != nil {
			return nil, fmt.Errorf("--models %s: %w", name, err)
		}
	}
	return models, nil
}

// benchModel reads the properties of a checkpoint that the benchmark needs. All servers get its weights as floats, if
// necessary in a copy in the directory copies.
func benchModel(dir, copies string) (m bench.Model, err error) {
	name := filepath.Base(dir)
	if dir, err = floatModel(dir, copies); err != nil {
		return m, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return m, err
	}
	ckpt, err := checkpoint.Open(dir)
	if err != nil {
		return m, err
	}
	defer ckpt.Close()
	labels, single, err := ckpt.Labels()
	if err != nil {
		return m, err
	}
	if single || len(labels) > 1 {
		return m, errors.New("has one output, or several aspects; the other servers need one output for each of two labels")
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		return m, err
	}
	shape := bench.Shape{Hidden: ckpt.Config.HiddenSize, Layers: ckpt.Config.Layers, Intermediate: ckpt.Config.Intermediate}
	return bench.Model{
		Name: name, Version: ckpt.Manifest.Version, Dir: dir, Shape: shape, MaxLength: ckpt.MaxLength(),
		Violation: labels[0].Violation, Compliant: labels[0].Compliant, Tokenizer: tok,
	}, nil
}

// versionsOf reads the version and build information of a binary of assay.
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
