package admin

import (
	"net/http"
	"net/url"

	"assay/sidecar/cli"
)

// Models is the command "assay models": the model versions of a running service.
type Models struct {
	List     modelsListCmd     `cmd:"" help:"List the versions, the current one first."`
	Show     modelsShowCmd     `cmd:"" help:"Show the origin of a version, and why it was promoted or rejected."`
	Promote  modelsPromoteCmd  `cmd:"" help:"Promote a version without the gate."`
	Rollback modelsRollbackCmd `cmd:"" help:"Promote the previous version again."`
}

type modelsListCmd struct{ clientFlags }

// Help is shown by --help.
func (*modelsListCmd) Help() string {
	return `Example:

    assay models list`
}

// Run is called by kong.
func (c *modelsListCmd) Run(a *cli.App) error { return c.show(a, http.MethodGet, "/v1/models", nil) }

type modelsShowCmd struct {
	Version string `arg:"" help:"Version, as listed by models list."`
	clientFlags
}

// Help is shown by --help.
func (*modelsShowCmd) Help() string {
	return `Example:

    assay models show assay-20261121-fc92af3b

Prints the parent version, the training labels, the gate metrics, and who promoted it.`
}

// Run is called by kong.
func (c *modelsShowCmd) Run(a *cli.App) error {
	return c.show(a, http.MethodGet, "/v1/models/"+url.PathEscape(c.Version), nil)
}

// reasonFlag is recorded in the audit trail.
type reasonFlag struct {
	Reason string `help:"Reason, for the audit trail."`
}

func (f reasonFlag) body() any {
	return struct {
		Reason string `json:"reason,omitzero"`
	}{f.Reason}
}

type modelsPromoteCmd struct {
	Version string `arg:"" help:"Version, as listed by models list."`
	reasonFlag
	clientFlags
}

// Help is shown by --help.
func (*modelsPromoteCmd) Help() string {
	return `Example:

    assay models promote assay-20261121-fc92af3b --reason "the gate was too strict"

All replicas load the version and serve it.`
}

// Run is called by kong.
func (c *modelsPromoteCmd) Run(a *cli.App) error {
	return c.show(a, http.MethodPost, "/v1/models/"+url.PathEscape(c.Version)+"/promote", c.body())
}

type modelsRollbackCmd struct {
	reasonFlag
	clientFlags
}

// Help is shown by --help.
func (*modelsRollbackCmd) Help() string {
	return `Example:

    assay models rollback --reason "rewards of run 7 look odd"

Keeps the feedback. A second rollback goes back one more version.`
}

// Run is called by kong.
func (c *modelsRollbackCmd) Run(a *cli.App) error {
	// A retry would roll back twice: the client does not retry this request.
	return c.show(a, http.MethodPost, "/v1/models/rollback", c.body())
}
