package admin

import (
	"net/http"

	"assay/sidecar/cli"
)

// Training is the command "assay training": the training runs of a running service.
type Training struct {
	Start  trainingStartCmd  `cmd:"" help:"Ask for a training now."`
	Status trainingStatusCmd `cmd:"" help:"Show the training that runs, how the last one ended, and what the next one waits for."`
}

type trainingStartCmd struct {
	reasonFlag
	Refreeze bool `help:"Judge on the labels that the held-out responses have now, instead of those at the last promotion: after a change of policy."`
	clientFlags
}

// Help is shown by --help.
func (*trainingStartCmd) Help() string {
	return `Example:

    assay training start --reason "new annotation guideline" --refreeze

It begins as soon as no other runs and there are labels enough to judge it by; training status says what is missing.`
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
