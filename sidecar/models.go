package main

import (
	"net/http"
	"net/url"
)

// modelsCmd groups what is done with the model versions of a running service.
type modelsCmd struct {
	List     modelsListCmd     `cmd:"" help:"List the versions, the current one first."`
	Show     modelsShowCmd     `cmd:"" help:"Show where a version comes from, and why it was promoted or rejected."`
	Promote  modelsPromoteCmd  `cmd:"" help:"Make a version current without asking the gate."`
	Rollback modelsRollbackCmd `cmd:"" help:"Make the version before the current one current again."`
}

type modelsListCmd struct{ clientFlags }

// Run is called by kong.
func (c *modelsListCmd) Run(a *app) error { return c.show(a, http.MethodGet, "/v1/models", nil) }

type modelsShowCmd struct {
	Version string `arg:"" help:"Version, as models list shows it."`
	clientFlags
}

// Run is called by kong.
func (c *modelsShowCmd) Run(a *app) error {
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

// Run is called by kong.
func (c *modelsPromoteCmd) Run(a *app) error {
	return c.show(a, http.MethodPost, "/v1/models/"+url.PathEscape(c.Version)+"/promote", c.body())
}

type modelsRollbackCmd struct {
	reasonFlag
	clientFlags
}

// Run is called by kong.
func (c *modelsRollbackCmd) Run(a *app) error {
	// Not repeated by itself: a second one would go back one step more.
	c.Retries = 0
	return c.show(a, http.MethodPost, "/v1/models/rollback", c.body())
}
