package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Progress reports how far a pull is.
type Progress struct {
	File string
	// Done and Total count the bytes of all files of the pull. Done decreases
	// when a file restarts from scratch.
	Done, Total int64
}

// download fetches files of one commit into a directory.
type download struct {
	client *Client
	repo   string
	commit string
	dir    string // staging directory of the files
	old    string // directory of an earlier pull, "" for none
	done   int64  // bytes of the files that are complete
	total  int64
	report func(Progress)
}

func (d *download) progress(f File, have int64) {
	if d.report != nil {
		d.report(Progress{File: f.Name, Done: d.done + have, Total: d.total})
	}
}

// fetch ensures that the directory contains f, verified.
func (d *download) fetch(ctx context.Context, f File) error {
	final := filepath.Join(d.dir, f.Name)
	if !f.matches(final) {
		if err := os.RemoveAll(final); err != nil {
			return err
		}
		if err := d.obtain(ctx, f, final); err != nil {
			return d.explain(f, err)
		}
	}
	d.done += f.Size
	d.progress(f, 0)
	return nil
}

// obtain copies f from this machine if possible, and otherwise downloads it from the hub.
func (d *download) obtain(ctx context.Context, f File, final string) error {
	var copies []string
	if d.old != "" {
		kept := filepath.Join(d.old, f.Name)
		if f.matches(kept) {
			if os.Link(kept, final) == nil {
				return nil
			}
			copies = append(copies, kept) // of another one, even of the same size, a partial download is worth more
		}
	}
	if d.client.cache != "" {
		directory := "models--" + strings.ReplaceAll(d.repo, "/", "--")
		copies = append(copies, filepath.Join(d.client.cache, directory, "blobs", f.sum()))
	}
	p, err := d.client.openPart(f, final)
	if err != nil {
		return err
	}
	defer p.close()
	for _, path := range copies {
		if ok, err := d.copy(p, path); err != nil || ok {
			return errors.Join(err, p.finish(final))
		}
	}
	if err := d.transfer(ctx, p); err != nil {
		return err
	}
	return p.finish(final)
}

// copy fills the part from a file that may have the same content. It returns an
// error only when the part cannot be written.
func (d *download) copy(p *part, path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != p.of.Size {
		return false, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return false, nil
	}
	defer file.Close()
	if err := p.reset(); err != nil {
		return false, err
	}
	if _, err := io.Copy(p, file); writing(err) {
		return false, err
	}
	if p.verify() == nil {
		return true, nil
	}
	return false, p.reset()
}

// transfer fills the part from the hub and verifies it.
func (d *download) transfer(ctx context.Context, p *part) error {
	wrong := 0
	return d.client.retry(ctx, func(ctx context.Context) (bool, error) {
		err := d.attempt(ctx, p)
		if err == nil {
			err = p.verify()
		}
		if errors.Is(err, ErrChecksum) {
			// The part may have contained bytes of another file, so the first
			// mismatch is not evidence against the hub.
			wrong++
			if resetting := p.reset(); resetting != nil {
				return false, resetting
			}
			if wrong == 1 {
				return false, &transientError{error: err}
			}
			return false, fmt.Errorf("%w; %s, or a proxy in front of it, alters files", err, d.client.endpoint.Host)
		}
		return p.advanced(), err
	})
}

// attempt requests the missing bytes.
func (d *download) attempt(ctx context.Context, p *part) error {
	if p.have == p.of.Size {
		return nil
	}
	ctx, touch, stop := d.client.watch(ctx)
	defer stop()
	u := d.client.endpoint.JoinPath(d.repo, "resolve", d.commit, url.PathEscape(p.of.Name))
	header := http.Header{}
	if p.have > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", p.have))
		if etag := p.etag(); etag != "" {
			header.Set("If-Range", etag)
		}
	}
	res, err := d.client.get(ctx, d.repo, u, header)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var from int64
	switch _, err := fmt.Sscanf(res.Header.Get("Content-Range"), "bytes %d-", &from); {
	case res.StatusCode == http.StatusOK:
		if err := p.reset(); err != nil {
			return err
		}
		p.setETag(res.Header.Get("ETag"))
	case res.StatusCode != http.StatusPartialContent || err != nil || from != p.have:
		if err := p.reset(); err != nil {
			return err
		}
		return &transientError{error: fmt.Errorf("%s: %s does not resume %s where it stopped", d.repo, res.Request.URL.Host, p.of.Name)}
	}
	buffer := make([]byte, 256<<10)
	for {
		n, err := res.Body.Read(buffer)
		touch()
		if _, werr := p.Write(buffer[:n]); errors.Is(werr, errTooLong) {
			return fmt.Errorf("%s: %w: %w", p.of.Name, werr, ErrChecksum)
		} else if werr != nil {
			return werr
		}
		d.progress(p.of, p.have)
		switch {
		case err == io.EOF && p.have < p.of.Size:
			return &transientError{error: fmt.Errorf("%s: %s ended %s after %d of %d bytes", d.repo, res.Request.URL.Host, p.of.Name, p.have, p.of.Size)}
		case err == io.EOF:
			return nil
		case err != nil:
			return failed(ctx, res.Request.URL, err)
		case ctx.Err() != nil: // bytes may come faster than they can be stopped
			return failed(ctx, res.Request.URL, ctx.Err())
		}
	}
}

// writing reports whether an error comes from writing the part, not from reading
// the source: both are files.
func writing(err error) bool {
	var at *fs.PathError
	return errors.As(err, &at) && at.Op == "write"
}

// explain adds advice about a full disk.
func (d *download) explain(f File, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%s: no space for the rest of %d bytes in %s; free some space and pull again, which resumes from here, or choose another directory: %w",
			f.Name, d.total, d.dir, err)
	}
	return err
}
