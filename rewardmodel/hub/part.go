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

// errTooLong says that a hub sends more than it announced.
var errTooLong = errors.New("more bytes than announced")

// part is a file that is not complete yet: NAME.part, with the validator of its
// bytes in NAME.part.etag.
type part struct {
	of       File
	path     string
	file     *os.File
	write    func(*os.File, []byte) (int, error)
	digest   hash.Hash
	have     int64
	furthest int64 // the most it ever had in this run
}

// openPart opens or creates the part of f that will become final. What is
// there is hashed, so that it need not be read again.
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
	p.furthest = p.have
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

// reset begins anew.
func (p *part) reset() error {
	p.digest, p.have = p.of.digest(), 0
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return p.file.Truncate(0)
}

// advanced tells whether p has more than it ever had, and remembers it.
func (p *part) advanced() bool {
	before := p.furthest
	p.furthest = max(p.furthest, p.have)
	return p.furthest > before
}

// verify compares the checksum of a complete part.
func (p *part) verify() error {
	if got := hex.EncodeToString(p.digest.Sum(nil)); p.have != p.of.Size || got != p.of.sum() {
		return fmt.Errorf("%s: %d bytes with the checksum %s came, announced are %d with %s: %w",
			p.of.Name, p.have, got, p.of.Size, p.of.sum(), ErrChecksum)
	}
	return nil
}

// finish flushes a verified part to the disk and gives it its name.
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

// etag is the validator of the bytes that are there, "" when it is unknown.
func (p *part) etag() string {
	data, err := os.ReadFile(p.path + ".etag")
	if err != nil {
		return ""
	}
	return string(data)
}

// setETag remembers a strong validator. Without one the checksum alone tells
// whether a part was continued with the bytes of another file, so a failure
// to write it costs a download, not correctness.
func (p *part) setETag(etag string) {
	if len(etag) < 3 || len(etag) > 1024 || !strings.HasPrefix(etag, `"`) || !strings.HasSuffix(etag, `"`) {
		_ = os.Remove(p.path + ".etag")
		return
	}
	_ = os.WriteFile(p.path+".etag", []byte(etag), 0o644)
}
