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

// Request says what to pull and where to.
type Request struct {
	Repo     string   // ORG/NAME
	Revision string   // branch, tag or commit; "" is main
	Dir      string   // the folder to make; an earlier pull of the same repository is brought up to date
	Include  []string // patterns, as of path.Match, of further files at the top of the repository
	// Report is called from Pull's goroutine as bytes arrive; nil is allowed.
	Report func(Progress)
}

// Pull makes req.Dir hold the checkpoint of a revision and returns its receipt.
// Pulling again reads no file that is there and right; changed is false when
// that is true of all. With a whole commit as the revision the hub is then not
// even asked.
//
// Until all files are there and verified they lie in req.Dir+".pulling", from
// where the next pull goes on; req.Dir stays what it was. The error wraps one
// of the errors of this package, or says what the file system refused.
func (c *Client) Pull(ctx context.Context, req Request) (receipt Receipt, changed bool, err error) {
	req.Revision = cmp.Or(req.Revision, "main")
	if err := errors.Join(checkRepo(req.Repo), checkRevision(req.Revision), checkInclude(req.Include)); err != nil {
		return Receipt{}, false, err
	}
	if req.Dir == "" {
		return Receipt{}, false, fmt.Errorf("no folder to pull to: %w", ErrInvalid)
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
		return Receipt{}, false, fmt.Errorf("%s holds %s; choose another folder for %s: %w", req.Dir, old.Repo, receipt.Repo, ErrOccupied)
	}
	return c.update(ctx, req, dir, old, receipt)
}

// sameRepo compares as hubs do.
func sameRepo(a, b string) bool { return strings.EqualFold(a, b) }

// earlier returns the receipt of what is in dir, a zero one for a folder that
// is not there or is empty.
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
		return Receipt{}, fmt.Errorf("%s holds files that no pull has put there (it has no %s); choose another folder: %w", dir, ReceiptFile, ErrOccupied)
	}
	return Receipt{}, nil
}

// describe asks the hub what the revision stands for. The receipt has no files
// yet.
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

// update makes dir what receipt describes.
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
	strange, err := old.strangers(dir)
	if err != nil {
		return Receipt{}, false, err
	}
	if len(strange) > 0 {
		return Receipt{}, false, fmt.Errorf("%s must be replaced, but also holds %s, which no pull has put there; move it away, or choose another folder: %w",
			dir, strings.Join(strange, ", "), ErrOccupied)
	}
	gathered, release, err := gather(dir)
	if err != nil {
		return Receipt{}, false, err
	}
	defer release()
	d := &download{client: c, repo: receipt.Repo, commit: receipt.Commit, dir: gathered, report: req.Report}
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
	if err := receipt.write(gathered); err != nil {
		return Receipt{}, false, err
	}
	return receipt, true, install(gathered, dir, receipt)
}

// suitable tells whether the repository has a checkpoint in a form that may be
// read, and what to do when it has not.
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
		return fmt.Errorf("%s at %.12s has its weights only as %s, which can run code when they are loaded or are of another framework; %s: %w",
			receipt.Repo, receipt.Commit, strings.Join(found, ", "), advice, ErrUnsuitable)
	case !single && !sharded:
		return fmt.Errorf("%s at %.12s has no %s: %w", receipt.Repo, receipt.Commit, weightsFile, ErrUnsuitable)
	}
	if _, ok := all[configFile]; !ok {
		return fmt.Errorf("%s at %.12s has no %s, so it is no checkpoint of transformers: %w", receipt.Repo, receipt.Commit, configFile, ErrUnsuitable)
	}
	return nil
}

// knownShards are those that the index names, if the folder has it already.
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

// choose picks the files and sets how many bytes they are. For sharded weights
// it fetches their index first.
func (d *download) choose(ctx context.Context, all map[string]File, include []string) ([]File, error) {
	var shards []string
	if _, single := all[weightsFile]; !single {
		index := all[indexFile]
		if index.Size > maxAnswer {
			return nil, fmt.Errorf("%s is %d bytes long; at most %d make sense: %w", indexFile, index.Size, maxAnswer, ErrUnsuitable)
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
