package assay

import (
	"cmp"
	"errors"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// isLoopback reports whether a service is on this machine. No other receives the
// token of a private service.
func isLoopback(service *url.URL) bool {
	host := service.Hostname()
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// privateToken reads the token of a private service; "" if there is none.
func privateToken(dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(cmp.Or(dir, os.Getenv("ASSAY_DATA_DIR"), defaultDataDir()), "token"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}

// defaultDataDir is the default of the flag --data-dir of assay serve.
func defaultDataDir() string {
	under := func(variable string, parts ...string) string {
		base := os.Getenv(variable)
		if !filepath.IsAbs(base) || base == "/" {
			return ""
		}
		return filepath.Join(append([]string{base}, parts...)...)
	}
	switch runtime.GOOS {
	case "windows":
		return cmp.Or(under("LocalAppData", "assay"), "assay-data")
	case "darwin":
		return cmp.Or(under("HOME", "Library", "Application Support", "assay"), "assay-data")
	}
	return cmp.Or(under("XDG_DATA_HOME", "assay"), under("HOME", ".local", "share", "assay"), "assay-data")
}
