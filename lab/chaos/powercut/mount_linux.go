package powercut

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// unmountTimeout bounds how long processes that were killed may keep a mount busy.
const unmountTimeout = 10 * time.Second

// cached is how long the kernel caches names and attributes: only processes on this mount change them.
const cached time.Duration = time.Hour

// Mount shows a disk to processes as a directory.
type Mount struct {
	dir    string
	server *fuse.Server
}

// Mount mounts the disk at an existing directory. It fails where there is no FUSE, or no permission to mount.
func (d *Disk) Mount(dir string) (*Mount, error) {
	timeout := cached
	server, err := fs.Mount(dir, &node{disk: d, file: d.root}, &fs.Options{
		EntryTimeout: &timeout, AttrTimeout: &timeout, NullPermissions: true,
		MountOptions: fuse.MountOptions{FsName: "powercut", Name: "powercut", DirectMount: true, Logger: log.New(io.Discard, "", 0)},
	})
	if err != nil {
		return nil, fmt.Errorf("FUSE: %w", err)
	}
	return &Mount{dir, server}, nil
}

// Unmount ends the mount. The processes that used it must have ended, or be about to.
func (m *Mount) Unmount() error {
	for began := time.Now(); ; <-time.After(20 * time.Millisecond) {
		err := unix.Unmount(m.dir, 0)
		if err == nil {
			m.server.Wait()
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Since(began) > unmountTimeout {
			return errors.Join(fmt.Errorf("unmount %s: %w", m.dir, err), unix.Unmount(m.dir, unix.MNT_DETACH))
		}
	}
}

// node is a file as go-fuse sees it.
type node struct {
	fs.Inode
	disk *Disk
	file *file
}

// handle is an open file.
type handle struct{ synced bool } // it was opened with O_SYNC

var (
	_ fs.NodeLookuper   = (*node)(nil)
	_ fs.NodeGetattrer  = (*node)(nil)
	_ fs.NodeSetattrer  = (*node)(nil)
	_ fs.NodeReaddirer  = (*node)(nil)
	_ fs.NodeMkdirer    = (*node)(nil)
	_ fs.NodeCreater    = (*node)(nil)
	_ fs.NodeSymlinker  = (*node)(nil)
	_ fs.NodeReadlinker = (*node)(nil)
	_ fs.NodeUnlinker   = (*node)(nil)
	_ fs.NodeRmdirer    = (*node)(nil)
	_ fs.NodeRenamer    = (*node)(nil)
	_ fs.NodeOpener     = (*node)(nil)
	_ fs.NodeReader     = (*node)(nil)
	_ fs.NodeWriter     = (*node)(nil)
	_ fs.NodeFsyncer    = (*node)(nil)
	_ fs.NodeAllocater  = (*node)(nil)
	_ fs.NodeStatfser   = (*node)(nil)
)

// lock locks the disk until the returned function is called.
func (n *node) lock() func() {
	n.disk.mu.Lock()
	return n.disk.mu.Unlock
}

func (f *file) attributes(out *fuse.Attr) {
	out.Ino, out.Mode, out.Nlink, out.Blksize = f.number, f.mode, 1, 4096
	out.Size = uint64(len(f.content))
	out.Blocks = (out.Size + 511) / 512
	out.SetTimes(&f.modified, &f.modified, &f.modified)
}

// child is the inode of a file below n.
func (n *node) child(ctx context.Context, f *file, out *fuse.EntryOut) *fs.Inode {
	f.attributes(&out.Attr)
	return n.NewInode(ctx, &node{disk: n.disk, file: f}, fs.StableAttr{Mode: f.mode & syscall.S_IFMT, Ino: f.number})
}

// Lookup implements fs.NodeLookuper.
func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	defer n.lock()()
	f := n.file.names[name]
	if f == nil {
		return nil, syscall.ENOENT
	}
	return n.child(ctx, f, out), 0
}

// Getattr implements fs.NodeGetattrer.
func (n *node) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	defer n.lock()()
	n.file.attributes(&out.Attr)
	return 0
}

// Setattr implements fs.NodeSetattrer: the mode is durable immediately, the size like a write.
func (n *node) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	defer n.lock()()
	if size, ok := in.GetSize(); ok {
		if errno := n.disk.write(n.file, write{offset: int64(size), truncate: true}, false); errno != 0 {
			return errno
		}
	}
	if mode, ok := in.GetMode(); ok {
		n.file.mode = n.file.mode&syscall.S_IFMT | mode&^syscall.S_IFMT
	}
	if modified, ok := in.GetMTime(); ok {
		n.file.modified = modified
	}
	n.file.attributes(&out.Attr)
	return 0
}

// Readdir implements fs.NodeReaddirer.
func (n *node) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	defer n.lock()()
	var entries []fuse.DirEntry
	for _, name := range slices.Sorted(maps.Keys(n.file.names)) {
		entries = append(entries, fuse.DirEntry{Name: name, Mode: n.file.names[name].mode, Ino: n.file.names[name].number})
	}
	return fs.NewListDirStream(entries), 0
}

// create adds a new file to the directory.
func (n *node) create(ctx context.Context, called string, mode uint32, target string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	defer n.lock()()
	f := n.disk.newFile(mode)
	f.target = target
	if errno := n.disk.rename(name{n.file, called, f}); errno != 0 {
		return nil, errno
	}
	return n.child(ctx, f, out), 0
}

// Mkdir implements fs.NodeMkdirer.
func (n *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return n.create(ctx, name, syscall.S_IFDIR|mode&0o777, "", out)
}

// Create implements fs.NodeCreater.
func (n *node) Create(ctx context.Context, name string, flags uint32, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	inode, errno := n.create(ctx, name, syscall.S_IFREG|mode&0o777, "", out)
	return inode, &handle{flags&syscall.O_DSYNC != 0}, 0, errno
}

// Symlink implements fs.NodeSymlinker.
func (n *node) Symlink(ctx context.Context, target, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return n.create(ctx, name, syscall.S_IFLNK|0o777, target, out)
}

// Readlink implements fs.NodeReadlinker.
func (n *node) Readlink(context.Context) ([]byte, syscall.Errno) { return []byte(n.file.target), 0 }

// Unlink implements fs.NodeUnlinker.
func (n *node) Unlink(_ context.Context, called string) syscall.Errno {
	defer n.lock()()
	return n.disk.rename(name{n.file, called, nil})
}

// Rmdir implements fs.NodeRmdirer.
func (n *node) Rmdir(_ context.Context, called string) syscall.Errno {
	defer n.lock()()
	if f := n.file.names[called]; f != nil && len(f.names) > 0 {
		return syscall.ENOTEMPTY
	}
	return n.disk.rename(name{n.file, called, nil})
}

// Rename implements fs.NodeRenamer.
func (n *node) Rename(_ context.Context, from string, parent fs.InodeEmbedder, to string, flags uint32) syscall.Errno {
	defer n.lock()()
	target := parent.(*node).file //nolint:errcheck // all nodes are
	moved, replaced := n.file.names[from], target.names[to]
	switch {
	case moved == nil:
		return syscall.ENOENT
	case flags&unix.RENAME_EXCHANGE != 0:
		return n.disk.rename(name{n.file, from, replaced}, name{target, to, moved})
	case flags&unix.RENAME_NOREPLACE != 0 && replaced != nil:
		return syscall.EEXIST
	case replaced != nil && len(replaced.names) > 0:
		return syscall.ENOTEMPTY
	}
	return n.disk.rename(name{n.file, from, nil}, name{target, to, moved})
}

// Open implements fs.NodeOpener.
func (n *node) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	defer n.lock()()
	if flags&syscall.O_ACCMODE != syscall.O_RDONLY && n.disk.condition == ReadOnly {
		return nil, 0, syscall.EROFS
	}
	return &handle{flags&syscall.O_DSYNC != 0}, 0, 0
}

// Read implements fs.NodeReader.
func (n *node) Read(_ context.Context, _ fs.FileHandle, to []byte, offset int64) (fuse.ReadResult, syscall.Errno) {
	defer n.lock()()
	if offset >= int64(len(n.file.content)) {
		return fuse.ReadResultData(nil), 0
	}
	return fuse.ReadResultData(to[:copy(to, n.file.content[offset:])]), 0
}

// Write implements fs.NodeWriter.
func (n *node) Write(_ context.Context, h fs.FileHandle, data []byte, offset int64) (uint32, syscall.Errno) {
	opened, ok := h.(*handle)
	synced := ok && opened.synced
	if synced {
		n.wait()
	}
	defer n.lock()()
	if errno := n.disk.write(n.file, write{offset: offset, data: data}, synced); errno != 0 {
		return 0, errno
	}
	return uint32(len(data)), 0
}

// wait is the time that a slow disk takes for a sync.
func (n *node) wait() {
	unlock := n.lock()
	slow := n.disk.condition == Slow
	unlock()
	if slow {
		<-time.After(SlowSync)
	}
}

// Fsync implements fs.NodeFsyncer, for files and directories.
func (n *node) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	n.wait()
	defer n.lock()()
	return n.disk.sync(n.file)
}

// Allocate implements fs.NodeAllocater.
func (n *node) Allocate(_ context.Context, _ fs.FileHandle, offset, size uint64, mode uint32) syscall.Errno {
	if mode != 0 {
		return syscall.EOPNOTSUPP
	}
	defer n.lock()()
	if end := int64(offset + size); end > int64(len(n.file.content)) {
		return n.disk.write(n.file, write{offset: end, truncate: true}, false)
	}
	return 0
}

// Statfs implements fs.NodeStatfser: a disk of 16 GiB.
func (n *node) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	defer n.lock()()
	out.Bsize, out.Frsize, out.NameLen = 4096, 4096, 255
	out.Blocks, out.Files, out.Ffree = 4<<20, 1<<20, 1<<20
	if n.disk.condition != Full {
		out.Bfree, out.Bavail = 3<<20, 3<<20
	}
	return 0
}
