package admin

import (
	"net/http"
	"net/url"

	"assay/sidecar/cli"
)

// Models is the command "assay models": the model versions of a running service.
type Models struct {
	List     modelsListCmd     `cmd:"" help:"List the versions, the current one first."`
	Show     modelsShowCmd     `cmd:"" help:"Show where a version comes from, and why it was promoted or rejected."`
	Promote  modelsPromoteCmd  `cmd:"" help:"Make a version current without asking the gate."`
	Rollback modelsRollbackCmd `cmd:"" help:"Make the version before the current one current again."`
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
	Version string `arg:"" help:"Version, as models list shows it."`
	clientFlags
}

// Help is shown by --help.
func (*modelsShowCmd) Help() string {
	return `Example:

    assay models show assay-20261121-fc92af3b

The version before it, the labels that it was trained on, the metrics of the gate, and who decided.`
}

// Run is called by kong.
func (c *modelsShowCmd) Run(a *cli.App) error {
	return c.show(a, http.MethodGet, "/v1/models/"+url.PathEscape(c.Version), nil)
}

// reasonFlag goes into the audit trail.
type reasonFlag struct {
	Reason string `help:"Why, for the audit trail."`
}

func (f reasonFlag) body() any {
	return struct {
		Reason string `json:"reason,omitzero"`
	}{f.Reason}
}

type modelsPromoteCmd struct {
	Version string `arg:"" help:"Version, as models list shows it."`
	reasonFlag
	clientFlags
}

// Help is shown by --help.
func (*modelsPromoteCmd) Help() string {
	return `Example:

    assay models promote assay-20261121-fc92af3b --reason "the gate was too strict"

Every replica loads the version and serves it from then on.`
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

Feedback stays. Again, it goes one version further back.`
}

// Run is called by kong.
func (c *modelsRollbackCmd) Run(a *cli.App) error {
	// Repeating it would go back one step more, which the client does not do.
	return c.show(a, http.MethodPost, "/v1/models/rollback", c.body())
}
