package cli

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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

// BuildTime is when the commit was made that the Go tool recorded in the binary, or zero if it is unknown.
func BuildTime() time.Time {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return time.Time{}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			t, err := time.Parse(time.RFC3339, s.Value)
			if err == nil {
				return t
			}
		}
	}
	return time.Time{}
}

// RegisterBuildInfo registers assay_build_info with reg.
func RegisterBuildInfo(reg prometheus.Registerer) error {
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "assay_build_info",
		Help: "1, with the version of assay, the commit that it was built from, and the version of Go."},
		[]string{"version", "revision", "goversion"})
	version, commit := BuildVersion()
	info.WithLabelValues(version, commit, runtime.Version()).Set(1)
	return reg.Register(info)
}
