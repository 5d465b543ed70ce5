package commands

import (
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

// Version shows version and build information, and the device and precisions of this machine.
type Version struct{}

// Help is shown by --help.
func (*Version) Help() string { return "Example:\n\n    assay version" }

// Run is called by kong.
func (*Version) Run(a *cli.App) error { return localmodel.WriteVersion(a.Stdout) }
