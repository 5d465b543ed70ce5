package checkpoint

import (
	"errors"
	"fmt"
	"io"
)

// chunk is the number of bytes that are read and validated at a time: few enough
// to stay in the processor's cache.
const chunk = 256 << 10

// ReadTensor fills dst with the little-endian bytes of the tensor of that
// canonical or stored name; len(dst) must be its size, TensorInfo.Bytes. A
// NaN or infinite float is an error that wraps ErrNotFinite.
func (c *Checkpoint) ReadTensor(name string, dst []byte) error {
	t, err := c.find(name)
	if err != nil {
		return err
	}
	if int64(len(dst)) != t.end-t.start {
		return fmt.Errorf("checkpoint %s: tensor %q takes %d bytes, the destination has %d", c.Dir, t.name, t.end-t.start, len(dst))
	}
	for at := 0; at < len(dst); at += chunk {
		part := dst[at:min(at+chunk, len(dst))]
		if err := c.readAt(t, part, at); err != nil {
			return err
		}
	}
	return nil
}

// Float32 returns the tensor of that canonical or stored name, row-major, as
// float32: F16 and BF16 widened exactly, I8 multiplied by its scales. It fails as
// ReadFloat32 does.
func (c *Checkpoint) Float32(name string) ([]float32, error) {
	info, ok := c.Info(name)
	if !ok || !info.DType.weight() {
		return nil, c.ReadFloat32(name, nil)
	}
	dst := make([]float32, info.Elements())
	if err := c.ReadFloat32(name, dst); err != nil {
		return nil, err
	}
	return dst, nil
}

// ReadFloat32 fills dst with the tensor as Float32 returns it; len(dst) must
// be its number of elements. The error wraps ErrNoTensor, ErrNotFinite,
// ErrUnsupported (not a weight) or that of the file.
func (c *Checkpoint) ReadFloat32(name string, dst []float32) error {
	t, err := c.find(name)
	if err != nil {
		return err
	}
	if !t.dtype.weight() {
		return fmt.Errorf("checkpoint %s: tensor %q is %s, not a float: %w", c.Dir, t.name, t.dtype, ErrUnsupported)
	}
	scales, err := c.scales(t)
	if err != nil {
		return err
	}
	width := t.dtype.Size()
	if int64(len(dst)) != (t.end-t.start)/int64(width) {
		return fmt.Errorf("checkpoint %s: tensor %q has %d elements, the destination %d", c.Dir, t.name, (t.end-t.start)/int64(width), len(dst))
	}
	buffer := make([]byte, min(chunk, len(dst)*width))
	for at := 0; at < len(dst); {
		n := min(len(buffer)/width, len(dst)-at)
		part := buffer[:n*width]
		if err := c.readAt(t, part, at*width); err != nil {
			return err
		}
		t.dtype.widen(dst[at:at+n], part)
		t.multiply(dst[at:at+n], at, scales)
		at += n
	}
	return nil
}

// ReadAs fills dst with the little-endian bytes of the tensor converted to a
// float type, rounded as FromFloat32 does; len(dst) must be its number of
// elements times dtype.Size(). It fails as ReadFloat32 does.
func (c *Checkpoint) ReadAs(name string, dtype DType, dst []byte) error {
	t, err := c.find(name)
	if err != nil {
		return err
	}
	switch {
	case t.dtype == dtype:
		return c.ReadTensor(name, dst)
	case !t.dtype.weight() || !dtype.Float():
		return fmt.Errorf("checkpoint %s: tensor %q is %s, which cannot be read as %s: %w", c.Dir, t.name, t.dtype, dtype, ErrUnsupported)
	}
	scales, err := c.scales(t)
	if err != nil {
		return err
	}
	elements := int((t.end - t.start) / int64(t.dtype.Size()))
	if len(dst) != elements*dtype.Size() {
		return fmt.Errorf("checkpoint %s: tensor %q has %d elements, the destination %d bytes", c.Dir, t.name, elements, len(dst))
	}
	const maxElements = chunk / 4 // fits in a chunk with any type
	part := make([]byte, min(maxElements, elements)*t.dtype.Size())
	values := make([]float32, min(maxElements, elements))
	for at := 0; at < elements; at += maxElements {
		n := min(maxElements, elements-at)
		if err := c.readAt(t, part[:n*t.dtype.Size()], at*t.dtype.Size()); err != nil {
			return err
		}
		t.dtype.widen(values[:n], part)
		t.multiply(values[:n], at, scales)
		dtype.narrow(dst[at*dtype.Size():at*dtype.Size()], values[:n]) // in place: the capacity is dst's
	}
	return nil
}

// readAt reads the part of t that begins at its byte offset, and checks it.
// chunk is a multiple of every element's size, so parts hold whole elements.
func (c *Checkpoint) readAt(t located, part []byte, offset int) error {
	if _, err := t.shard.file.ReadAt(part, t.start+int64(offset)); err != nil {
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("the file was truncated after it was opened: %w", ErrDamaged)
		}
		return fmt.Errorf("checkpoint %s: %s: tensor %q: %w", c.Dir, t.shard.name, t.name, err)
	}
	if i := t.dtype.nonFinite(part); i >= 0 {
		return fmt.Errorf("checkpoint %s: %s: tensor %q: element %d: %w", c.Dir, t.shard.name, t.name, offset/t.dtype.Size()+i, ErrNotFinite)
	}
	return nil
}
