package packedweights

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// A file of packed weights decides every score, and contains its own checksum, so that a user who can write the file, or
// replace it in its directory, can choose the scores. As OpenSSH does with keys, assay uses only what nobody but the user
// of the process, and root, can write.

// UntrustedError is returned for a directory or file that another user can write.
type UntrustedError struct{ path, reason string }

func (u *UntrustedError) Error() string {
	return fmt.Sprintf("packedweights: %s %s, so nothing there is used; set --packed-weights to a directory of this user, or correct owner and mode", u.path, u.reason)
}

// trust returns an error if a user but root and this one can write what info describes. A group may whose number is that
// of the user, which is the user's own: Kubernetes makes volumes writable to fsGroup.
func trust(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return &UntrustedError{path, "has an unknown owner"}
	}
	return trustOwner(path, os.Geteuid(), int(stat.Uid), int(stat.Gid), info.Mode())
}

func trustOwner(path string, user, uid, gid int, mode fs.FileMode) error {
	switch {
	case uid != user && uid != 0:
		return &UntrustedError{path, fmt.Sprintf("belongs to user %d, not to %d", uid, user)}
	case mode&0o002 != 0:
		return &UntrustedError{path, fmt.Sprintf("is writable by all users (%v)", mode)}
	case mode&0o020 != 0 && gid != user:
		return &UntrustedError{path, fmt.Sprintf("is writable by group %d (%v)", gid, mode)}
	}
	return nil
}

// root opens the directory. It fails if another user can write there. What is opened in it cannot lead out of it.
func (d Dir) root() (*os.Root, error) {
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(".")
	if err == nil {
		err = trust(string(d), info)
	}
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	return root, nil
}
