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

// Pull downloads a checkpoint from a hub.
type Pull struct {
	Repo     string   `arg:"" help:"Repository on the hub: ORG/NAME, or ORG/NAME@REVISION."`
	Revision string   `placeholder:"REV" help:"Branch, tag or commit (main). All files are downloaded at the commit that it resolves to."`
	Out      string   `placeholder:"DIR" help:"Directory to create or update (models/NAME)."`
	Endpoint string   `placeholder:"URL" help:"URL of the hub ($$HF_ENDPOINT, or https://huggingface.co)."`
	Include  []string `placeholder:"PATTERN" help:"Additional files in the root of the repository, for example '*.json'; pickles and code are never downloaded."`
}

// Help is shown by --help.
func (*Pull) Help() string {
	return `Example:

    assay pull FacebookAI/roberta-base
    assay train --init models/roberta-base --bags feedback.jsonl --out models/mine

Downloads the safetensors weights, the configuration, the tokenizer, and the model card with the license, and prints
the directory. Every file is verified against the checksum of the hub; assay-pull.json in the directory records the
commit. An interrupted download resumes; a repeated pull verifies the existing files. HF_TOKEN (or the token in
HF_HOME) gives access to private and gated repositories; files in the cache of HF_HOME are not downloaded again.`
}

// Run is called by kong.
func (c *Pull) Run(a *cli.App) error {
	ctx, stop := a.UntilSignal()
	defer stop()
	quiet := *a
	quiet.Stdout = io.Discard // written only at the end, so the progress bar may use the terminal
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

// run downloads the checkpoint and returns its directory.
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
		for _, cause := range []error{hub.ErrInvalid, hub.ErrNotFound, hub.ErrDenied, hub.ErrUnsuitable, hub.ErrOccupied} {
			if errors.Is(err, cause) {
				return "", cli.Usage(err)
			}
		}
		return "", err
	}
	message := "pulled"
	if !changed {
		message = "already up to date; all files verified"
	}
	log.Info().Str("repo", receipt.Repo).Str("commit", receipt.Commit).Str("license", cmp.Or(receipt.License, "unspecified; see README.md")).
		Int("files", len(receipt.Files)).Str("dir", req.Dir).Msg(message)
	for _, problem := range unusable(req.Dir) {
		log.Warn().Str("dir", req.Dir).Msg("this version of assay cannot use the checkpoint: " + problem.Error())
	}
	return req.Dir, nil
}

// request builds the request from the arguments.
func (c *Pull) request() (hub.Request, error) {
	repo, revision, at := strings.Cut(c.Repo, "@")
	if at && c.Revision != "" && c.Revision != revision {
		return hub.Request{}, fmt.Errorf("--revision %s conflicts with %s; give the revision only once", c.Revision, c.Repo)
	}
	if at && revision == "" {
		return hub.Request{}, fmt.Errorf("%s: no revision after @; omit the @ for main", c.Repo)
	}
	return hub.Request{
		Repo: repo, Revision: cmp.Or(revision, c.Revision), Dir: cmp.Or(c.Out, filepath.Join("models", path.Base(repo))), Include: c.Include,
	}, nil
}

// unusable returns the reasons why assay cannot use a checkpoint directory; none if
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
		problems = append(problems, fmt.Errorf("the tokenizer has %d tokens, but the embedding has only %d rows", tok.VocabSize(), ckpt.Config.Vocab))
	}
	return problems
}

// hubHome is the directory where Hugging Face tools store their token and cache.
func hubHome(getenv func(string) string) string {
	if home := getenv("HF_HOME"); home != "" {
		return home
	}
	if cache := getenv("XDG_CACHE_HOME"); cache != "" {
		return filepath.Join(cache, "huggingface")
	}
	return filepath.Join(getenv("HOME"), ".cache", "huggingface")
}

// hubToken is HF_TOKEN, or the token that a Hugging Face login stored in home.
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
