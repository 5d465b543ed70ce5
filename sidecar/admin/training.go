package admin

import (
	"net/http"

	"assay/sidecar/cli"
)

// Training is the command "assay training": the training runs of a running service.
type Training struct {
	Start  trainingStartCmd  `cmd:"" help:"Request a training run."`
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
