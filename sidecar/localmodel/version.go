package localmodel

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"strings"

	"assay/rewardmodel/encoder"
	"assay/sidecar/cli"
)

// WriteVersion writes version and build information, and the device and precisions of this machine.
func WriteVersion(w io.Writer) error {
	version, commit := cli.BuildVersion()
	var device, libtorch string
	var precisions, numerics []string
	if rt, err := encoder.NewRuntime(encoder.RuntimeOptions{}); err != nil {
		device = err.Error()
	} else {
		device = rt.Device()
		if libtorch, err = rt.Libtorch(); err != nil {
			libtorch = err.Error()
		}
		for _, p := range rt.Precisions() {
			precisions = append(precisions, string(p))
			if n := rt.Numerics(p); n != "" {
				numerics = append(numerics, n+"/"+string(p))
			}
		}
		rt.Close()
	}
	_, err := fmt.Fprintf(w, "version    %s\ncommit     %s\ngo         %s %s/%s\nlibtorch   %s\nprecision  %s\ndevice     %s\nnumerics   %s\n",
		version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH, libtorch, strings.Join(precisions, ", "), device, cmp.Or(strings.Join(numerics, ", "), "not fixed"))
	return err
}
