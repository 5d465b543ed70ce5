package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// privateTokenFile is where a private service keeps the token of its owner, in
// its data directory. Whoever can read it may do everything.
const privateTokenFile = "token"

// minPrivateToken is the length of a token that the service generates, in
// characters.
const minPrivateToken = 26

// makePrivateToken returns the token in a data directory, and generates it first
// where there is none. It fails when somebody else may read or replace it.
func makePrivateToken(dataDir string) (string, error) {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return "", fmt.Errorf("--data-dir: %w", err)
	}
	path := filepath.Join(dataDir, privateTokenFile)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if err := writePrivateToken(path); err != nil {
			return "", fmt.Errorf("--private: %w", err)
		}
	}
	if err := checkPrivateToken(path); err != nil {
		return "", fmt.Errorf("--private: %w", err)
	}
	token, err := readPrivateToken(dataDir)
	if err == nil && len(token) < minPrivateToken {
		err = errors.New("it holds no token; remove it, so that the service generates one")
	}
	if err != nil {
		return "", fmt.Errorf("--private: %s: %w", path, err)
	}
	return token, nil
}

// writePrivateToken creates the file whole or not at all, and leaves one that
// another process created meanwhile.
func writePrivateToken(path string) (err error) {
	temporary, err := os.CreateTemp(filepath.Dir(path), ".token-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(temporary.Name())) }()
	_, err = temporary.WriteString(rand.Text() + "\n")
	if err := errors.Join(err, temporary.Sync(), temporary.Close()); err != nil {
		return err
	}
	if err := os.Link(temporary.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// checkPrivateToken makes sure that the token is a secret of this user.
func checkPrivateToken(path string) error {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	switch {
	case stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("%s is not a regular file; remove it, so that the service generates a token", path)
	case int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d, not to user %d who runs the service; remove it, so that the service generates a token", path, stat.Uid, os.Geteuid())
	case stat.Mode&0o077 != 0:
		return fmt.Errorf("%s has mode %#o, so that other users may know the token; remove it, so that the service generates another one with mode 0600", path, stat.Mode&0o777)
	}
	return nil
}

// readPrivateToken returns the token in a data directory, "" when there is none
// or when this user may not read it.
func readPrivateToken(dataDir string) (string, error) {
	if dataDir == "" {
		return "", nil
	}
	text, err := os.ReadFile(filepath.Join(dataDir, privateTokenFile))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(text)), nil
}

// privateTokenFor returns the token in a data directory for a service whose
// addresses are all on this machine. Others never see it.
func privateTokenFor(dataDir string, addresses ...string) (string, error) {
	for _, address := range addresses {
		if u, err := url.Parse(strings.TrimSpace(address)); err != nil || !onThisMachine(u.Host) || u.User != nil {
			return "", nil //nolint:nilerr // connecting reports what is wrong with it
		}
	}
	return readPrivateToken(dataDir)
}

// onThisMachine reports whether HOST or HOST:PORT is a loopback address or
// localhost.
func onThisMachine(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}
