package hub

import (
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"
)

// errTooLong reports that a hub sends more bytes than it listed.
var errTooLong = errors.New("more bytes than listed")

// part is a file that is not complete yet: NAME.part, with the validator of its
// bytes in NAME.part.etag.
type part struct {
	of      File
	path    string
	file    *os.File
	write   func(*os.File, []byte) (int, error)
	digest  hash.Hash
	have    int64
	maxHave int64 // maximum of have in this run
}

// openPart opens or creates the part of f that will become final. It hashes the
// existing bytes, so that they need not be read again.
func (c *Client) openPart(f File, final string) (*part, error) {
	p := &part{of: f, path: final + ".part", write: c.write, digest: f.digest()}
	var err error
	if p.file, err = os.OpenFile(p.path, os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return nil, err
	}
	if p.have, err = io.Copy(p.digest, p.file); err == nil && p.have > f.Size {
		err = p.reset()
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.maxHave = p.have
	return p, nil
}

// Write appends.
func (p *part) Write(b []byte) (int, error) {
	if p.have+int64(len(b)) > p.of.Size {
		return 0, errTooLong
	}
	n, err := p.write(p.file, b)
	p.digest.Write(b[:n])
	p.have += int64(n)
	return n, err
}

// reset restarts from scratch.
func (p *part) reset() error {
	p.digest, p.have = p.of.digest(), 0
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return p.file.Truncate(0)
}

// advanced reports whether p has more bytes than at any earlier call.
func (p *part) advanced() bool {
	before := p.maxHave
	p.maxHave = max(p.maxHave, p.have)
	return p.maxHave > before
}

// verify compares the checksum of a complete part.
func (p *part) verify() error {
	if got := hex.EncodeToString(p.digest.Sum(nil)); p.have != p.of.Size || got != p.of.sum() {
		return fmt.Errorf("%s: received %d bytes with the checksum %s, expected %d with %s: %w",
			p.of.Name, p.have, got, p.of.Size, p.of.sum(), ErrChecksum)
	}
	return nil
}

// finish syncs a verified part to disk and renames it to its final name.
func (p *part) finish(final string) error {
	if err := p.file.Sync(); err != nil {
		return err
	}
	if err := p.file.Close(); err != nil {
		return err
	}
	if err := os.Rename(p.path, final); err != nil {
		return err
	}
	p.setETag("")
	return nil
}

func (p *part) close() error { return p.file.Close() }

// etag is the validator of the existing bytes, "" when it is unknown.
func (p *part) etag() string {
	data, err := os.ReadFile(p.path + ".etag")
	if err != nil {
		return ""
	}
	return string(data)
}

// setETag stores a strong validator. Without one, only the checksum detects a part
// that was resumed with the bytes of another file, so a failure to write it costs
// a download, not correctness.
func (p *part) setETag(etag string) {
	if len(etag) < 3 || len(etag) > 1024 || !strings.HasPrefix(etag, `"`) || !strings.HasSuffix(etag, `"`) {
		_ = os.Remove(p.path + ".etag")
		return
	}
	_ = os.WriteFile(p.path+".etag", []byte(etag), 0o644)
}
