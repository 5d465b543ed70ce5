package powercut

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Condition is what a disk does with writes from now on.
type Condition int

// What a disk may do.
const (
	// Working stores everything.
	Working Condition = iota
	// Full fails with ENOSPC where a file would grow or be created.
	Full
	// ReadOnly fails with EROFS.
	ReadOnly
	// Failing fails writes and syncs with EIO.
	Failing
	// Slow takes SlowSync for each sync.
	Slow
)

// SlowSync is how long a slow disk takes for a sync, like a busy hard disk.
const SlowSync = 30 * time.Millisecond

// Disk is a file system that a Mount shows to processes. Its methods may be called concurrently.
type Disk struct {
	mu        sync.Mutex
	condition Condition
	root      *file
	last      uint64   // number of the latest file
	renames   []naming // not yet durable, in order
	syncs     int
}

// file is a directory, a regular file or a symbolic link.
type file struct {
	number   uint64
	mode     uint32 // with the type
	modified time.Time
	target   string // of a symbolic link

	content []byte  // as processes see it
	durable []byte  // content at the last sync
	writes  []write // since then

	names        map[string]*file // of a directory
	durableNames map[string]*file
}

// write replaces bytes from an offset on, or sets the size.
type write struct {
	offset   int64
	data     []byte
	truncate bool // to offset
}

// naming is one atomic change of names.
type naming []name

// name sets what a directory has under a name; nil: nothing.
type name struct {
	dir  *file
	name string
	file *file
}

// NewDisk returns an empty disk.
func NewDisk() *Disk {
	d := &Disk{}
	d.root = d.newFile(syscall.S_IFDIR | 0o700)
	return d
}

// Set sets what the disk does from now on.
func (d *Disk) Set(c Condition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.condition = c
}

// Syncs returns how often processes have synced so far.
func (d *Disk) Syncs() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.syncs
}

func (d *Disk) newFile(mode uint32) *file {
	d.last++
	f := &file{number: d.last, mode: mode, modified: time.Now()}
	if f.isDir() {
		f.names, f.durableNames = map[string]*file{}, map[string]*file{}
	}
	return f
}

func (f *file) isDir() bool { return f.mode&syscall.S_IFMT == syscall.S_IFDIR }

func (f *file) isRegular() bool { return f.mode&syscall.S_IFMT == syscall.S_IFREG }

// writable returns why the disk cannot be written; grows: the write needs space.
func (d *Disk) writable(grows bool) syscall.Errno {
	switch {
	case d.condition == ReadOnly:
		return syscall.EROFS
	case d.condition == Failing:
		return syscall.EIO
	case d.condition == Full && grows:
		return syscall.ENOSPC
	}
	return 0
}

// rename changes names at once. The first change names a new or moved file, if there is one.
func (d *Disk) rename(changes ...name) syscall.Errno {
	if errno := d.writable(changes[len(changes)-1].file != nil); errno != 0 {
		return errno
	}
	for _, c := range changes {
		c.set(c.dir.names)
		c.dir.modified = time.Now()
	}
	d.renames = append(d.renames, changes)
	return 0
}

func (n name) set(names map[string]*file) {
	if n.file == nil {
		delete(names, n.name)
		return
	}
	names[n.name] = n.file
}

// write writes to a file, durably if synced is set.
func (d *Disk) write(f *file, w write, synced bool) syscall.Errno {
	if errno := d.writable(w.offset+int64(len(w.data)) > int64(len(f.content))); errno != 0 {
		return errno
	}
	w.data = bytes.Clone(w.data)
	f.content = w.apply(f.content)
	f.writes = append(f.writes, w)
	f.modified = time.Now()
	if synced {
		return d.sync(f)
	}
	return 0
}

// sync makes a file durable, and all names so far.
func (d *Disk) sync(f *file) syscall.Errno {
	if d.condition == Failing || d.condition == ReadOnly && len(f.writes) > 0 {
		return syscall.EIO
	}
	d.syncs++
	for _, w := range f.writes {
		f.durable = w.apply(f.durable)
	}
	f.writes = nil
	d.keepNames(len(d.renames))
	return 0
}

// keepNames makes the first n changes of names durable.
func (d *Disk) keepNames(n int) {
	for _, changes := range d.renames[:n] {
		for _, c := range changes {
			c.set(c.dir.durableNames)
		}
	}
	d.renames = slices.Clone(d.renames[n:])
}

func (w write) apply(to []byte) []byte {
	end := w.offset + int64(len(w.data))
	if w.truncate && end < int64(len(to)) {
		return to[:end:end]
	}
	if grow := end - int64(len(to)); grow > 0 {
		to = append(to, make([]byte, grow)...)
	}
	copy(to[w.offset:], w.data)
	return to
}

// PowerCut replaces what processes see by what a power failure leaves. No process may use the disk.
func (d *Disk) PowerCut(rng *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.condition = Working
	if rng.IntN(2) == 0 {
		d.keepNames(rng.IntN(len(d.renames) + 1))
	}
	d.renames = nil
	d.each(func(_ string, f *file) { // in order, so that the same seed leaves the same
		f.names = maps.Clone(f.durableNames)
		for _, w := range survivors(rng, f.writes) {
			f.durable = w.apply(f.durable)
		}
		f.writes, f.content = nil, bytes.Clone(f.durable)
	})
}

// survivors returns which writes a power cut keeps, and how much of them.
func survivors(rng *rand.Rand, writes []write) (kept []write) {
	if len(writes) == 0 {
		return nil
	}
	switch rng.IntN(4) {
	case 0: // the first few, the last of them in part
		kept = slices.Clone(writes[:rng.IntN(len(writes)+1)])
		if last := len(kept) - 1; last >= 0 {
			kept[last].data = kept[last].data[:rng.IntN(len(kept[last].data)+1)]
		}
	case 1: // any: what is missing before the last reads as zeros
		for _, w := range writes {
			if rng.IntN(2) == 0 {
				kept = append(kept, w)
			}
		}
	}
	return kept
}

// each calls f with each durable file and its path, in the order of the paths.
func (d *Disk) each(f func(path string, file *file)) {
	var walk func(string, *file)
	walk = func(path string, at *file) {
		f(path, at)
		for _, name := range slices.Sorted(maps.Keys(at.durableNames)) {
			walk(path+"/"+name, at.durableNames[name])
		}
	}
	walk("", d.root)
}

// Settle makes everything durable, as a clean shutdown of the machine does.
func (d *Disk) Settle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settle()
}

func (d *Disk) settle() {
	d.keepNames(len(d.renames))
	d.each(func(_ string, f *file) { f.durable, f.writes = bytes.Clone(f.content), nil })
}

// Files returns the sizes of the regular files by path.
func (d *Disk) Files() map[string]int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settle()
	sizes := map[string]int64{}
	d.each(func(path string, f *file) {
		if f.isRegular() {
			sizes[path] = int64(len(f.content))
		}
	})
	return sizes
}

// find returns the file at a path of Files.
func (d *Disk) find(path string) (found *file) {
	d.each(func(at string, f *file) {
		if at == path {
			found = f
		}
	})
	return found
}

// FlipBit inverts one bit of a file at rest; the path is one of Files. No process may use the disk.
func (d *Disk) FlipBit(path string, bit int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.find(path)
	f.content[bit/8] ^= 1 << (bit % 8)
	f.durable = bytes.Clone(f.content)
}

// Tear replaces what follows a byte of a file at rest by zeros, or removes it; the path is one of Files. No process may
// use the disk.
func (d *Disk) Tear(path string, from int64, zeros bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.find(path)
	if zeros {
		clear(f.content[from:])
	} else {
		f.content = f.content[:from]
	}
	f.durable = bytes.Clone(f.content)
}
