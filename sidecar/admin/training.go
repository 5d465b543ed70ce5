package admin

import (
	"net/http"

	"assay/sidecar/cli"
)

// Training is the command "assay training": the training runs of a running service.
type Training struct {
	Start  trainingStartCmd  `cmd:"" help:"Request a training run."`
	Stop   trainingStopCmd   `cmd:"" help:"Stop the training run in progress, or withdraw the request for one."`
	Status trainingStatusCmd `cmd:"" help:"Show the current training run, the result of the last one, and what the next one waits for."`
}

type trainingStartCmd struct {
	reasonFlag
	Refreeze bool `help:"Evaluate on the current labels of the held-out responses instead of those at the last promotion; use it after a policy change."`
	clientFlags
}

// Help is shown by --help.
func (*trainingStartCmd) Help() string {
	return `Example:

    assay training start --reason "new annotation guideline" --refreeze

The run starts once no other is running and there are enough held-out labels; training status shows what is missing.`
}

// Run is called by kong.
func (c *trainingStartCmd) Run(a *cli.App) error {
	return c.show(a, http.MethodPost, "/v1/training", struct {
		Reason   string `json:"reason,omitzero"`
		Refreeze bool   `json:"refreeze,omitzero"`
	}{c.Reason, c.Refreeze})
}

type trainingStopCmd struct {
	ID string `arg:"" optional:"" help:"ID of the training run, as shown by training status; default: the one in progress."`
	reasonFlag
	clientFlags
}

// Help is shown by --help.
func (*trainingStopCmd) Help() string {
	return `Example:

    assay training stop --reason "the labels of today are wrong"

Nothing of the run is promoted, and its labels count for the next run. If no run is in progress, a request that waits is
withdrawn. A run that is being published cannot be stopped: use models rollback.`
}

// Run is called by kong.
func (c *trainingStopCmd) Run(a *cli.App) error {
	return c.show(a, http.MethodPost, "/v1/training/stop", struct {
		ID     string `json:"id,omitzero"`
		Reason string `json:"reason,omitzero"`
	}{c.ID, c.Reason})
}

type trainingStatusCmd struct{ clientFlags }

// Help is shown by --help.
func (*trainingStatusCmd) Help() string {
	return `Example:

    assay training status`
}

// Run is called by kong.
func (c *trainingStatusCmd) Run(a *cli.App) error {
	return c.show(a, http.MethodGet, "/v1/training", nil)
}
