package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Request describes what to pull and where to.
type Request struct {
	Repo     string   // ORG/NAME
	Revision string   // branch, tag or commit; "" is main
	Dir      string   // the directory to create; an earlier pull of the same repository is updated
	Include  []string // patterns, as of path.Match, of additional files at the top level of the repository
	// Report is called from Pull's goroutine as bytes arrive; nil is allowed.
	Report func(Progress)
}

// Pull downloads the checkpoint of a revision to req.Dir and returns its receipt.
// Pulling again does not download files that are present and correct; changed is
// false when all are. With a full commit as the revision it then sends no request
// to the hub.
//
// Until all files are present and verified they are stored in
// req.Dir+".pulling", where the next pull resumes; req.Dir does not change. The
// error wraps one of the errors of this package, or is one of the file system.
func (c *Client) Pull(ctx context.Context, req Request) (receipt Receipt, changed bool, err error) {
	req.Revision = cmp.Or(req.Revision, "main")
	if err := errors.Join(checkRepo(req.Repo), checkRevision(req.Revision), checkInclude(req.Include)); err != nil {
		return Receipt{}, false, err
	}
	if req.Dir == "" {
		return Receipt{}, false, fmt.Errorf("no directory to pull to: %w", ErrInvalid)
	}
	dir, err := target(req.Dir)
	if err != nil {
		return Receipt{}, false, err
	}
	old, err := earlier(dir)
	if err != nil {
		return Receipt{}, false, err
	}
	if old.Commit == req.Revision && sameRepo(old.Repo, req.Repo) && slices.Equal(old.Include, req.Include) && old.Verify(dir) == nil {
		return old, false, nil
	}
	receipt, err = c.describe(ctx, req)
	if err != nil {
		return Receipt{}, false, err
	}
	if old.Repo != "" && !sameRepo(old.Repo, receipt.Repo) {
		return Receipt{}, false, fmt.Errorf("%s holds %s; choose another directory for %s: %w", req.Dir, old.Repo, receipt.Repo, ErrOccupied)
	}
	return c.update(ctx, req, dir, old, receipt)
}

// sameRepo compares names as hubs do.
func sameRepo(a, b string) bool { return strings.EqualFold(a, b) }

// earlier returns the receipt of dir, or a zero one for a directory that does not
// exist or is empty.
func earlier(dir string) (Receipt, error) {
	old, err := ReadReceipt(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return old, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Receipt{}, err
	}
	if len(entries) > 0 {
		return Receipt{}, fmt.Errorf("%s contains files that were not pulled (it has no %s); choose another directory: %w", dir, ReceiptFile, ErrOccupied)
	}
	return Receipt{}, nil
}

// describe resolves the revision. The receipt has no files yet.
func (c *Client) describe(ctx context.Context, req Request) (Receipt, error) {
	m, err := c.resolve(ctx, req.Repo, req.Revision)
	if err != nil {
		return Receipt{}, err
	}
	return Receipt{
		Repo: m.ID, Revision: req.Revision, Commit: m.Commit, Endpoint: c.endpoint.String(), License: m.license(),
		Include: req.Include, Pulled: time.Now().UTC().Truncate(time.Second),
	}, nil
}

// update brings dir to the state that receipt describes.
func (c *Client) update(ctx context.Context, req Request, dir string, old, receipt Receipt) (Receipt, bool, error) {
	all, err := c.list(ctx, receipt.Repo, receipt.Commit)
	if err != nil {
		return Receipt{}, false, err
	}
	if err := c.suitable(ctx, receipt, all); err != nil {
		return Receipt{}, false, err
	}
	receipt.Files, err = choose(all, req.Include, knownShards(dir, all))
	if err == nil && slices.Equal(old.Files, receipt.Files) && old.Verify(dir) == nil {
		if old.Commit == receipt.Commit && slices.Equal(old.Include, receipt.Include) {
			return old, false, nil
		}
		return receipt, true, receipt.write(dir) // another commit with the same files
	}
	unlisted, err := old.unlisted(dir)
	if err != nil {
		return Receipt{}, false, err
	}
	if len(unlisted) > 0 {
		return Receipt{}, false, fmt.Errorf("%s must be replaced, but also contains %s, which was not pulled; move it away, or choose another directory: %w",
			dir, strings.Join(unlisted, ", "), ErrOccupied)
	}
	staging, release, err := openStaging(dir)
	if err != nil {
		return Receipt{}, false, err
	}
	defer release()
	d := &download{client: c, repo: receipt.Repo, commit: receipt.Commit, dir: staging, report: req.Report}
	if old.Repo != "" {
		d.old = dir
	}
	if receipt.Files, err = d.choose(ctx, all, req.Include); err != nil {
		return Receipt{}, false, err
	}
	for _, f := range receipt.Files {
		if err := d.fetch(ctx, f); err != nil {
			return Receipt{}, false, err
		}
	}
	if err := receipt.write(staging); err != nil {
		return Receipt{}, false, err
	}
	return receipt, true, install(staging, dir, receipt)
}

// suitable returns an error with advice when the repository has no checkpoint in a
// form that may be read.
func (c *Client) suitable(ctx context.Context, receipt Receipt, all map[string]File) error {
	_, single := all[weightsFile]
	_, sharded := all[indexFile]
	found := pickles(all)
	switch {
	case !single && !sharded && len(found) > 0:
		advice := "convert it with transformers' save_pretrained on a machine where you trust the file, or look for a revision with " + weightsFile
		if number := c.converted(ctx, receipt.Repo); number > 0 {
			advice = fmt.Sprintf("the hub's conversion bot offers them as safetensors: pull %s@%s", receipt.Repo, pullRequest(number))
		}
		return fmt.Errorf("%s at %.12s has its weights only as %s, which can run code when they are loaded or belong to another framework; %s: %w",
			receipt.Repo, receipt.Commit, strings.Join(found, ", "), advice, ErrUnsuitable)
	case !single && !sharded:
		return fmt.Errorf("%s at %.12s has no %s: %w", receipt.Repo, receipt.Commit, weightsFile, ErrUnsuitable)
	}
	if _, ok := all[configFile]; !ok {
		return fmt.Errorf("%s at %.12s has no %s, so it is not a transformers checkpoint: %w", receipt.Repo, receipt.Commit, configFile, ErrUnsuitable)
	}
	return nil
}

// knownShards returns the shards of the index if the directory already has it.
func knownShards(dir string, all map[string]File) []string {
	path := filepath.Join(dir, indexFile)
	index, ok := all[indexFile]
	if !ok || !index.matches(path) {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	shards, _ := parseIndex(data)
	return shards
}

// choose selects the files and sets their total size. For sharded weights it
// fetches the index first.
func (d *download) choose(ctx context.Context, all map[string]File, include []string) ([]File, error) {
	var shards []string
	if _, single := all[weightsFile]; !single {
		index := all[indexFile]
		if index.Size > maxResponse {
			return nil, fmt.Errorf("%s is %d bytes long; the maximum is %d: %w", indexFile, index.Size, maxResponse, ErrUnsuitable)
		}
		d.total = index.Size
		if err := d.fetch(ctx, index); err != nil {
			return nil, err
		}
		data, err := os.ReadFile(filepath.Join(d.dir, indexFile))
		if err != nil {
			return nil, err
		}
		if shards, err = parseIndex(data); err != nil {
			return nil, err
		}
	}
	files, err := choose(all, include, shards)
	d.done, d.total = 0, 0
	for _, f := range files {
		d.total += f.Size
	}
	return files, err
}
