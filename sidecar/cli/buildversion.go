package cli

import (
	"cmp"
	"runtime/debug"
)

// BuildVersion is the version and the commit that the Go tool recorded in the binary.
func BuildVersion() (version, commit string) {
	version, commit = "devel", "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, commit
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		version = v
	}
	dirty := ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = cmp.Or(s.Value, commit)
		case "vcs.modified":
			if s.Value == "true" {
				dirty = " (modified)"
			}
		}
	}
	return version, commit + dirty
}
