package encoder

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/durable"
)

// packedFile is what precedes the content of a file of a model that is computed in panels: everything that panelLayout lays out, as processes map
// it into their memory, which they share. It is the same for every level of instructions. All numbers are little-endian:
//
//	 8 bytes  "assay-w\n"
//	32        the key: a SHA-256 of what the content was computed from, and how
//	 8        the size of the content
//	16        by how much int8 moves the violation of the built-in texts: the mean and the maximum, as float64; 0 in bf16
//	 4        the number of those texts
//	 4        CRC-32C of the 68 bytes above and the content
//	56        zeros
//
// Files only ever appear whole, and never change, since processes have them mapped.
type packedFile struct {
	key       [32]byte
	precision Precision // in its name
	size      int
	moved     movement
}

const (
	packedMagic  = "assay-w\n"
	packedHeader = 128
	packedSealed = 68 // bytes before the checksum
	packedKept   = 4  // files in a directory: those used last
)

var errPackedFile = errors.New("encoder: not a file of this model, or a damaged one")

// header returns the header of a file with that content.
func (f packedFile) header(content []byte) []byte {
	h := append([]byte(packedMagic), f.key[:]...)
	h = binary.LittleEndian.AppendUint64(h, uint64(len(content)))
	h = binary.LittleEndian.AppendUint64(h, math.Float64bits(f.moved.mean))
	h = binary.LittleEndian.AppendUint64(h, math.Float64bits(f.moved.largest))
	h = binary.LittleEndian.AppendUint32(h, uint32(f.moved.texts))
	h = binary.LittleEndian.AppendUint32(h, packedChecksum(h, content))
	return append(h, make([]byte, packedHeader-len(h))...)
}

func packedChecksum(sealed, content []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(sealed, table), table, content)
}

// read checks a whole file against f.key and f.size, and returns its content.
func (f *packedFile) read(file []byte) (content []byte, err error) {
	if len(file) != packedHeader+f.size {
		return nil, errPackedFile
	}
	content = file[packedHeader:]
	f.moved = movement{
		mean:    math.Float64frombits(binary.LittleEndian.Uint64(file[48:])),
		largest: math.Float64frombits(binary.LittleEndian.Uint64(file[56:])),
		texts:   int(binary.LittleEndian.Uint32(file[64:])),
	}
	if !bytes.Equal(file[:packedHeader], f.header(content)) {
		return nil, errPackedFile
	}
	return content, nil
}

// packedDir is a directory of such files; "" holds none.
type packedDir string

func (f packedFile) name() string { return fmt.Sprintf("%x.%s", f.key, f.precision) }

func (d packedDir) path(f packedFile) string { return filepath.Join(string(d), f.name()) }

// isPacked reports whether a name is that of such a file.
func isPacked(name string) bool {
	suffix := filepath.Ext(name)
	return (suffix == "."+string(Int8) || suffix == "."+string(BF16)) && !durable.IsTemp(name)
}

// open maps the file of f.key, and returns it and its content. The caller unmaps it. It fails with untrusted if another user
// can write it.
func (d packedDir) open(f *packedFile) (mapped, content []byte, err error) {
	if d == "" {
		return nil, nil, os.ErrNotExist
	}
	root, err := d.root()
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	file, err := root.OpenFile(f.name(), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	if err := trust(d.path(*f), info); err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() || info.Size() != int64(packedHeader+f.size) {
		return nil, nil, errPackedFile
	}
	mapped, err = unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, nil, err
	}
	if content, err = f.read(mapped); err != nil {
		return nil, nil, errors.Join(err, unix.Munmap(mapped))
	}
	now := time.Now()
	_ = root.Chtimes(f.name(), now, now) // in a directory that is read-only nothing is removed either
	return mapped, content, nil
}

// write adds a file, and removes those that have not been used for longest. Several processes can write it at a time. It
// fails with untrusted if another user can write the directory.
func (d packedDir) write(f packedFile, content []byte) error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	root, err := d.root()
	if err != nil {
		return err
	}
	defer root.Close()
	err = durable.WriteTo(d.path(f), 0o600, func(w io.Writer) error {
		_, err := w.Write(f.header(content))
		if err == nil {
			_, err = w.Write(content)
		}
		return err
	})
	return errors.Join(err, d.prune())
}

// prune keeps the files that were used last. Processes that have mapped another one keep its content.
func (d packedDir) prune() error {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return err
	}
	type used struct {
		name string
		at   time.Time
	}
	var files []used
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && isPacked(entry.Name()) {
			files = append(files, used{entry.Name(), info.ModTime()})
		}
	}
	slices.SortFunc(files, func(a, b used) int { return cmp.Or(b.at.Compare(a.at), strings.Compare(a.name, b.name)) })
	for _, old := range files[min(packedKept, len(files)):] {
		if gone := os.Remove(filepath.Join(string(d), old.name)); gone != nil && !errors.Is(gone, os.ErrNotExist) { // another process prunes too
			err = errors.Join(err, gone)
		}
	}
	return err
}
