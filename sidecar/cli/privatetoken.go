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

// PrivateTokenFile is the name of the file in the data directory that holds the
// token of a private service. A process that can read it has the scope admin.
const PrivateTokenFile = "token"

// WritePrivateToken replaces the token in a data directory atomically. Only this
// user can read it. Every start of a service writes a new token, so that one that
// another user obtained while the service was down, by listening on its address,
// is invalid.
func WritePrivateToken(dataDir, token string) error {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(dataDir, PrivateTokenFile), []byte(token+"\n"), 0o600); err != nil {
		return fmt.Errorf("--private: %w", err)
	}
	return nil
}

// readPrivateToken returns the token in a data directory, or "" if there is none
// or this user cannot read it: the service then rejects the request.
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

// mayReceivePrivateToken reports whether the addresses of a service are all on this
// machine and have no credentials in the URL. No other service gets the token.
func mayReceivePrivateToken(addresses ...string) bool {
	for _, address := range addresses {
		if u, err := url.Parse(strings.TrimSpace(address)); err != nil || !isLoopback(u.Host) || u.User != nil {
			return false
		}
	}
	return true
}

// isLoopback reports whether HOST or HOST:PORT is a loopback address or
// localhost.
func isLoopback(host string) bool {
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
