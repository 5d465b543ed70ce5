package encoder

// #include <malloc.h>
// #include <stdlib.h>
import "C"

import (
	"fmt"
	"unsafe"
)

// alignedMemory is memory outside of Go's heap, aligned to 64 bytes, that is not initialized. Its zero value is empty.
type alignedMemory struct{ bytes []byte }

// allocate returns memory of at least one byte; free it.
func allocate(bytes int) (alignedMemory, error) {
	p := C.aligned_alloc(64, C.size_t((max(bytes, 1)+63)/64*64))
	if p == nil {
		return alignedMemory{}, fmt.Errorf("encoder: no memory for %d bytes", bytes)
	}
	return alignedMemory{unsafe.Slice((*byte)(p), max(bytes, 1))}, nil
}

// grow makes the memory at least as large as bytes. It does not keep its contents.
func (m *alignedMemory) grow(bytes int) error {
	if bytes <= len(m.bytes) {
		return nil
	}
	m.free()
	var err error
	*m, err = allocate(bytes)
	return err
}

func (m *alignedMemory) free() {
	if m.bytes != nil {
		C.free(unsafe.Pointer(&m.bytes[0]))
		m.bytes = nil
	}
}

// returnMemory returns the memory of weights that were freed to the system.
func returnMemory() { C.malloc_trim(0) }
