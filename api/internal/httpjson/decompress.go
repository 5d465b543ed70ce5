package httpjson

import (
	"bufio"
	"compress/gzip"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"

	"assay/api/internal/failure"
	"assay/rewardmodel"
)

// zstdWindow is the largest window in bytes that RFC 8878 asks every decoder to
// support.
const zstdWindow = 8 << 20

// decompress returns a reader of the plain body; its caller closes it.
func decompress(r io.Reader, encoding string, memory *rewardmodel.Reservation) (io.ReadCloser, error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return io.NopCloser(r), nil
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, failure.Invalid("Content-Encoding", "the body is not gzip: %v", err)
		}
		return &decoder{"gzip", z}, nil
	case "zstd":
		return newZstdReader(r, memory)
	default:
		return nil, failure.UnsupportedMediaType("Content-Encoding", "%.50q is not supported; send gzip, zstd or no encoding", encoding)
	}
}

// newZstdReader decompresses zstd. The window that the first frame requests is
// charged until the reader is closed; no later frame may request a larger one.
func newZstdReader(r io.Reader, memory *rewardmodel.Reservation) (io.ReadCloser, error) {
	buffered := bufio.NewReaderSize(r, 4<<10)
	window := windowOf(buffered)
	const blocks = 512 << 10 // of 128 KiB: two in addition to the window, one compressed, one of literals
	if err := memory.Grow(int64(window) + blocks); err != nil {
		return nil, err
	}
	z, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window))
	if err != nil {
		return nil, failure.Invalid("Content-Encoding", "the body is not zstd: %v", err)
	}
	return &chargedReader{&decoder{"zstd", z.IOReadCloser()}, memory, int64(window) + blocks}, nil
}

// windowOf returns the window of the first frame of r in bytes, at least
// minWindow so that the frames after a small one have room.
func windowOf(r *bufio.Reader) uint64 {
	const minWindow = 1 << 20
	start, _ := r.Peek(zstd.HeaderMaxSize) // the decoder fails in the same way
	var header zstd.Header
	if err := header.Decode(start); err != nil || header.Skippable {
		return zstdWindow
	}
	window := header.WindowSize
	if header.SingleSegment {
		window = header.FrameContentSize
	}
	return min(max(window, minWindow), zstdWindow)
}

// chargedReader releases memory when it is closed.
type chargedReader struct {
	io.ReadCloser
	memory *rewardmodel.Reservation
	bytes  int64
}

// Close implements io.Closer.
func (c *chargedReader) Close() error {
	c.memory.Shrink(c.bytes)
	return c.ReadCloser.Close()
}

// decoder names the encoding of a malformed body.
type decoder struct {
	name string
	io.ReadCloser
}

func (d *decoder) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // a stream ends with io.EOF itself; a wrapped one is a failure
		err = failure.Invalid("Content-Encoding", "the body is not whole %s: %v", d.name, err)
	}
	return n, err
}
