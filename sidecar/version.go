package main

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"assay/rewardmodel/encoder"
)

// versionCmd shows what the binary is made of and what it can use here.
type versionCmd struct{}

// Help is shown by --help.
func (*versionCmd) Help() string { return "Example:\n\n    assay version" }

// Run is called by kong.
func (*versionCmd) Run(a *app) error {
	version, commit := buildVersion()
	var device string
	var precisions []string
	if rt, err := encoder.NewRuntime(encoder.RuntimeOptions{}); err != nil {
		device = err.Error()
	} else {
		device = rt.Device()
		for _, p := range rt.Precisions() {
			precisions = append(precisions, string(p))
		}
		rt.Close()
	}
	_, err := fmt.Fprintf(a.stdout, "version    %s\ncommit     %s\ngo         %s %s/%s\nlibtorch   %s\nprecision  %s\ndevice     %s\n",
		version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH, libtorchFile(), strings.Join(precisions, ", "), device)
	return err
}

// buildVersion is what the Go tool wrote into the binary about its source.
func buildVersion() (version, commit string) {
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

// libtorchFile is the library that this process runs with, as the operating
// system knows it.
func libtorchFile() string {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return "linked"
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		if at := strings.IndexByte(lines.Text(), '/'); at >= 0 && strings.Contains(lines.Text(), "libtorch_cpu") {
			return lines.Text()[at:]
		}
	}
	return "linked"
}
