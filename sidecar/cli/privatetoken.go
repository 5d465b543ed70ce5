package cli

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/durable"
)

// PrivateTokenFile is where a private service keeps the token of its owner, in
// its data directory. Any process that can read it has the scope admin.
const PrivateTokenFile = "token"

// WritePrivateToken replaces the token in a data directory, whole or not at all.
// Only this user may read it. Every start of a service writes another one, so
// that a token which another user obtained while the service was down, by
// listening on its address, is invalid.
func WritePrivateToken(dataDir, token string) error {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(dataDir, PrivateTokenFile), []byte(token+"\n"), 0o600); err != nil {
		return fmt.Errorf("--private: %w", err)
	}
	return nil
}

// readPrivateToken returns the token in a data directory, "" when there is none
// or this user may not read it: the service then says that it needs one.
func readPrivateToken(dataDir string) string {
	if dataDir == "" {
		return ""
	}
	text, err := os.ReadFile(filepath.Join(dataDir, PrivateTokenFile))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// maySeePrivateToken reports whether the addresses of a service are all on this
// machine, and without credentials of their own. No other service gets the token.
func maySeePrivateToken(addresses ...string) bool {
	for _, address := range addresses {
		if u, err := url.Parse(strings.TrimSpace(address)); err != nil || !onThisMachine(u.Host) || u.User != nil {
			return false
		}
	}
	return true
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
