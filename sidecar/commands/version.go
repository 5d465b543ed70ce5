package commands

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"

	"assay/rewardmodel/encoder"
	"assay/sidecar/cli"
)

// Version shows version and build information, and the device and precisions of this machine.
type Version struct{}

// Help is shown by --help.
func (*Version) Help() string { return "Example:\n\n    assay version" }

// Run is called by kong.
func (*Version) Run(a *cli.App) error {
	version, commit := cli.BuildVersion()
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
	_, err := fmt.Fprintf(a.Stdout, "version    %s\ncommit     %s\ngo         %s %s/%s\nlibtorch   %s\nprecision  %s\ndevice     %s\n",
		version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH, libtorchFile(), strings.Join(precisions, ", "), device)
	return err
}

// libtorchFile is the path of the libtorch library that this process has loaded,
// or "linked" if it is unknown.
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
