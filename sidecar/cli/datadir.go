package cli

import "path/filepath"

// DefaultDataDir is the data directory of a program of this user by the conventions
// of the operating system, or ./assay-data without a home directory, as in some
// containers.
func DefaultDataDir(getenv func(string) string, goos string) string {
	under := func(variable string, parts ...string) string {
		base := getenv(variable)
		if !filepath.IsAbs(base) || base == "/" {
			return ""
		}
		return filepath.Join(append([]string{base}, parts...)...)
	}
	var candidates []string
	switch goos {
	case "windows":
		candidates = []string{under("LocalAppData", "assay")}
	case "darwin":
		candidates = []string{under("HOME", "Library", "Application Support", "assay")}
	default:
		candidates = []string{under("XDG_DATA_HOME", "assay"), under("HOME", ".local", "share", "assay")}
	}
	for _, dir := range candidates {
		if dir != "" {
			return dir
		}
	}
	return "assay-data"
}
