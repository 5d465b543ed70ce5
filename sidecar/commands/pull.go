package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/rs/zerolog"

	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/hub"
	"assay/rewardmodel/tokenizer"
	"assay/sidecar/cli"
)

// Pull fetches a checkpoint from a hub.
type Pull struct {
	Repo     string   `arg:"" help:"Repository on the hub: ORG/NAME, or ORG/NAME@REVISION."`
	Revision string   `placeholder:"REV" help:"Branch, tag or commit (main). Every file is read at the commit that it stands for."`
	Out      string   `placeholder:"DIR" help:"Folder to make, or to bring up to date (models/NAME)."`
	Endpoint string   `placeholder:"URL" help:"Hub to pull from ($$HF_ENDPOINT, else https://huggingface.co)."`
	Include  []string `placeholder:"PATTERN" help:"Further files at the top of the repository, such as '*.json'; pickles and code are never pulled."`
}

// Help is shown by --help.
func (*Pull) Help() string {
	return `Example:

    assay pull FacebookAI/roberta-base
    assay train --init models/roberta-base --bags feedback.jsonl --out models/mine

Pulls safetensors weights, the configuration, the tokenizer, and the model card with the licence, and prints the
folder. Every file is checked against the hub's checksum; assay-pull.json in the folder names the commit. A pull that
was stopped goes on where it was, and pulling again verifies what is there. HF_TOKEN (or the token in HF_HOME) is for
private and gated repositories; files that the cache in HF_HOME has are not downloaded again.`
}

// Run is called by kong.
func (c *Pull) Run(a *cli.App) error {
	ctx, stop := a.UntilSignal()
	defer stop()
	quiet := *a
	quiet.Stdout = io.Discard // it gets its line at the end, so that the bar is in nobody's way
	var (
		bar  *cli.Progress
		seen int64
	)
	dir, err := c.run(ctx, a.Log, func(now hub.Progress) {
		if bar == nil {
			bar = quiet.NewProgress("bytes", now.Total)
		}
		if now.Done > seen {
			bar.Add(int(now.Done-seen), int(now.Done-seen))
			seen = now.Done
		}
	})
	switch {
	case bar != nil && err == nil:
		bar.Finish()
	case bar != nil:
		bar.Clear()
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.Stdout, dir)
	return err
}

// run pulls and returns the directory.
func (c *Pull) run(ctx context.Context, log zerolog.Logger, report func(hub.Progress)) (string, error) {
	req, err := c.request()
	if err != nil {
		return "", cli.Usage(err)
	}
	home := hubHome(os.Getenv)
	token, err := hubToken(os.Getenv, home)
	if err != nil {
		return "", cli.Usage(err)
	}
	version, _ := cli.BuildVersion()
	client, err := hub.New(hub.Config{
		Endpoint: cmp.Or(c.Endpoint, os.Getenv("HF_ENDPOINT")), Token: token, Agent: "assay/" + version, Cache: filepath.Join(home, "hub"),
	})
	if err != nil {
		return "", cli.Usage(err)
	}
	defer client.Close()
	req.Report = report
	receipt, changed, err := client.Pull(ctx, req)
	if err != nil {
		for _, theirs := range []error{hub.ErrInvalid, hub.ErrNotFound, hub.ErrDenied, hub.ErrUnsuitable, hub.ErrOccupied} {
			if errors.Is(err, theirs) {
				return "", cli.Usage(err)
			}
		}
		return "", err
	}
	message := "pulled"
	if !changed {
		message = "already there, every file verified"
	}
	log.Info().Str("repo", receipt.Repo).Str("commit", receipt.Commit).Str("license", cmp.Or(receipt.License, "not named; see README.md")).
		Int("files", len(receipt.Files)).Str("folder", req.Dir).Msg(message)
	for _, problem := range unusable(req.Dir) {
		log.Warn().Str("folder", req.Dir).Msg("this version of assay cannot use the checkpoint as it is: " + problem.Error())
	}
	return req.Dir, nil
}

// request reads the arguments.
func (c *Pull) request() (hub.Request, error) {
	repo, revision, at := strings.Cut(c.Repo, "@")
	if at && c.Revision != "" && c.Revision != revision {
		return hub.Request{}, fmt.Errorf("--revision %s contradicts %s; give the revision once", c.Revision, c.Repo)
	}
	if at && revision == "" {
		return hub.Request{}, fmt.Errorf("%s: no revision after the @; leave it out for main", c.Repo)
	}
	return hub.Request{
		Repo: repo, Revision: cmp.Or(revision, c.Revision), Dir: cmp.Or(c.Out, filepath.Join("models", path.Base(repo))), Include: c.Include,
	}, nil
}

// unusable says what keeps assay from using a checkpoint directory; nothing when
// it can.
func unusable(dir string) []error {
	var problems []error
	ckpt, err := checkpoint.Open(dir)
	if err != nil {
		problems = append(problems, err)
	} else {
		defer ckpt.Close()
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		problems = append(problems, err)
	}
	if ckpt != nil && tok != nil && tok.VocabSize() > ckpt.Config.Vocab {
		problems = append(problems, fmt.Errorf("the tokenizer has %d tokens, the embedding only %d rows", tok.VocabSize(), ckpt.Config.Vocab))
	}
	return problems
}

// hubHome is where the tools of Hugging Face keep their token and cache.
func hubHome(getenv func(string) string) string {
	if home := getenv("HF_HOME"); home != "" {
		return home
	}
	if cache := getenv("XDG_CACHE_HOME"); cache != "" {
		return filepath.Join(cache, "huggingface")
	}
	return filepath.Join(getenv("HOME"), ".cache", "huggingface")
}

// hubToken is HF_TOKEN, else what a login has left in home.
func hubToken(getenv func(string) string, home string) (string, error) {
	if token := strings.TrimSpace(getenv("HF_TOKEN")); token != "" {
		return token, nil
	}
	data, err := os.ReadFile(filepath.Join(home, "token"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("HF_HOME: %w; set HF_TOKEN instead", err)
	}
	return strings.TrimSpace(string(data)), nil
}
