package cli

import (
	"cmp"
	"runtime/debug"
)

// BuildVersion is what the Go tool wrote into the binary about its source.
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
				dirty = " with changes"
			}
		}
	}
	return version, commit + dirty
}
