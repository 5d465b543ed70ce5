package doctor

import "golang.org/x/sys/unix"

// fileSystem is where a directory is stored.
type fileSystem struct {
	free     int64  // bytes that this user can write; -1: unknown
	volatile string // why its content is lost, and when; "": it is not
	network  string // its name, if it is on another machine; "": it is not
}

func readFileSystem(dir string) (fileSystem, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return fileSystem{free: -1}, err
	}
	f := fileSystem{free: int64(s.Bavail) * s.Bsize}
	switch s.Type {
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
		f.volatile = "is in memory (tmpfs) and lost at a restart of the machine"
	case unix.OVERLAYFS_SUPER_MAGIC:
		f.volatile = "is in the writable layer of the container (overlayfs) and lost with it"
	case unix.NFS_SUPER_MAGIC:
		f.network = "NFS"
	case unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC:
		f.network = "SMB"
	}
	return f, nil
}
