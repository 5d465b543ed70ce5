package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"assay/queue/embedded"
)

// dataDir is the data directory, or the directory that it can be created in.
type dataDir struct {
	path     string
	exists   bool
	mode     fs.FileMode
	owner    int // user id; -1: unknown
	user     int // of this process
	holder   string
	used     int64 // bytes of the streams
	system   fileSystem
	fsync    time.Duration // of a small write; 0: unknown
	ahead    time.Duration // of the clock of the file system
	writeErr error         // why it cannot be written or created
}

// readDataDir examines the directory with a temporary file.
func readDataDir(path string) dataDir {
	d := dataDir{path: path, owner: -1, user: os.Getuid()}
	at, info, err := existing(path)
	if err != nil {
		d.writeErr = err
		return d
	}
	if d.exists = at == path; d.exists {
		d.mode = info.Mode()
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			d.owner = int(s.Uid)
		}
		d.holder, _ = embedded.DataDirHolder(path) // an error shows as one of writing
		d.used = treeSize(filepath.Join(path, "nats"))
	}
	d.system, d.writeErr = readFileSystem(at)
	if d.writeErr == nil {
		d.fsync, d.ahead, d.writeErr = probe(at)
	}
	return d
}

// existing returns path, or its closest ancestor that exists.
func existing(path string) (string, fs.FileInfo, error) {
	path, err := filepath.Abs(path)
	for ; err == nil; path = filepath.Dir(path) {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && path != filepath.Dir(path):
			continue
		case err != nil:
			return "", nil, err
		case !info.IsDir():
			return "", nil, fmt.Errorf("%s is not a directory", path)
		}
		return path, info, nil
	}
	return "", nil, err
}

// treeSize returns the size of the files below a directory in bytes, of those that can be read.
func treeSize(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // a file that was removed meanwhile, or that this user cannot read
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}

const (
	probes     = 9        // odd, for the median
	probeBytes = 16 << 10 // a message of a stream
)

// probe writes a temporary file in a directory, and returns the median duration of a small write with fsync, and how far
// the clock of the file system is ahead.
func probe(dir string) (fsync, ahead time.Duration, err error) {
	file, err := os.CreateTemp(dir, ".assay-doctor-*")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	var took []time.Duration
	for range probes {
		start := time.Now()
		if _, err := file.Write(make([]byte, probeBytes)); err != nil {
			return 0, 0, err
		}
		if err := file.Sync(); err != nil {
			return 0, 0, err
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	info, err := file.Stat()
	if err != nil {
		return 0, 0, err
	}
	return took[probes/2], time.Until(info.ModTime()), nil
}

const (
	// slowSync is an fsync that leaves less than 50 acknowledgements per second.
	slowSync = 20 * time.Millisecond
	// littleSpace is too little for a service to start and to record its state, in bytes.
	littleSpace = 256 << 20
)

// findings judges the directory. maxStore is the disk limit of the embedded server in bytes; 0: the server is external,
// and the directory has only models and training runs. synced reports whether each acknowledgement waits for an fsync.
func (d dataDir) findings(maxStore int64, synced bool) (found []Finding) {
	add := func(status Status, detail, fix string) {
		found = append(found, Finding{"data", status, d.path + " " + detail, fix})
	}
	if d.writeErr != nil {
		add(Error, "cannot be written: "+d.writeErr.Error(), fmt.Sprintf("let the user %d write it (chown, chmod 700), mount it writable, or give another --data-dir", d.user))
		return found
	}
	if d.holder != "" {
		add(Warning, fmt.Sprintf("is in use by the assay process %s", d.holder), "stop that process before you start another one, or give another --data-dir")
	}
	if d.exists && d.mode.Perm()&0o077 != 0 {
		add(Warning, fmt.Sprintf("can be accessed by other users (mode %04o), and it has labels with their texts", d.mode.Perm()), "chmod 700 "+d.path)
	}
	if d.exists && d.owner >= 0 && d.owner != d.user {
		add(Warning, fmt.Sprintf("belongs to the user %d, but this process runs as %d", d.owner, d.user), "run assay doctor as the user of the service, or chown the directory")
	}
	found = append(found, d.space(maxStore)...)
	if maxStore > 0 {
		found = append(found, d.durability(synced)...)
	}
	if !slices.ContainsFunc(found, func(f Finding) bool { return f.Status != OK }) {
		state := "can be created"
		if d.exists {
			state = "is writable"
		}
		free := "unknown free space"
		if d.system.free >= 0 {
			free = size(d.system.free) + " free"
		}
		add(OK, fmt.Sprintf("%s; %s; a write with fsync takes %s", state, free, rounded(d.fsync)), "")
	}
	return append(found, skew("the file system of "+d.path, d.ahead)...)
}

// space compares the free space with what the streams may need.
func (d dataDir) space(maxStore int64) []Finding {
	free := d.system.free
	switch {
	case free < 0:
		return nil
	case free < littleSpace:
		return []Finding{{"data", Error, fmt.Sprintf("%s has %s of free space", d.path, size(free)), "free space, or give a --data-dir on another disk"}}
	case free < maxStore-d.used:
		return []Finding{{"data", Warning, fmt.Sprintf("%s has %s of free space, but the streams may grow by %s (--nats-max-store %s)", d.path, size(free), size(maxStore-d.used), size(maxStore)),
			"free space, or lower --nats-max-store: when the disk is full, feedback and streamed responses are rejected"}}
	}
	return nil
}

// durability judges the file system of an embedded server.
func (d dataDir) durability(synced bool) (found []Finding) {
	if d.system.volatile != "" {
		found = append(found, Finding{"data", Warning, d.path + " " + d.system.volatile + ", and so are labels, responses, rewards and models", "give a --data-dir on a disk or a volume"})
	}
	if d.system.network != "" {
		found = append(found, Finding{"data", Warning, d.path + " is on a network file system (" + d.system.network + "): its fsync is slow, and its locks may not exclude another machine", "give a --data-dir on a local disk or a block volume"})
	}
	if synced && d.fsync > slowSync {
		found = append(found, Finding{"data", Warning, fmt.Sprintf("a write with fsync takes %s: the embedded server acknowledges at most %.0f messages per second", rounded(d.fsync), 1/d.fsync.Seconds()), "give a --data-dir on a faster disk; --sync interval is faster and less safe"})
	}
	return found
}
