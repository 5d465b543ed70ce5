// Package payload reads and renders messages in buffers whose memory is charged
// to a reservation before it is allocated.
package payload

import (
	"bytes"
	"io"

	"assay/rewardmodel"
)

// ReadAll reads all of r, or fails as soon as there are more than limit bytes or
// more than memory allows. tooLarge is the error of the former. size is the length
// that the client announced; it is trusted up to 64 KiB.
func ReadAll(r io.Reader, limit, size int64, memory *rewardmodel.Reservation, tooLarge error) ([]byte, error) {
	body, err := Grow(nil, min(max(size, 0), 64<<10)+bytes.MinRead, memory)
	if err != nil {
		return nil, err
	}
	for {
		if len(body) == cap(body) {
			more := int64(cap(body)/4 + 64<<10)
			if body, err = Grow(body, min(int64(cap(body))+more, limit+bytes.MinRead), memory); err != nil {
				return nil, err
			}
		}
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return nil, tooLarge
		case err == io.EOF: //nolint:errorlint // a stream ends with io.EOF itself
			return body, nil
		case err != nil:
			return nil, err
		}
	}
}

// Grow moves data to a buffer with the given capacity in bytes. Both buffers are
// charged while it copies.
func Grow(data []byte, size int64, memory *rewardmodel.Reservation) ([]byte, error) {
	if err := memory.Grow(size); err != nil {
		return nil, err
	}
	larger := append(make([]byte, 0, size), data...)
	memory.Shrink(int64(cap(data)))
	return larger, nil
}

// Buffer is a message that is being rendered. It charges its memory as it grows,
// and fails before it exceeds its limit.
type Buffer struct {
	memory   *rewardmodel.Reservation
	limit    int64
	tooLarge func(size int64) error
	body     []byte
}

// NewBuffer returns an empty buffer of at most limit bytes; tooLarge returns the
// error of a larger size. A nil reservation charges nothing.
func NewBuffer(memory *rewardmodel.Reservation, limit int64, tooLarge func(size int64) error) *Buffer {
	return &Buffer{memory: memory, limit: limit, tooLarge: tooLarge}
}

// Bytes returns what was written.
func (b *Buffer) Bytes() []byte { return b.body }

// Write implements io.Writer.
func (b *Buffer) Write(data []byte) (int, error) {
	size := len(b.body) + len(data)
	if int64(size) > b.limit {
		return 0, b.tooLarge(int64(size))
	}
	if size > cap(b.body) {
		larger, err := Grow(b.body, int64(max(size, cap(b.body)*3/2)), b.memory)
		if err != nil {
			return 0, err
		}
		b.body = larger
	}
	b.body = append(b.body, data...)
	return len(data), nil
}
