package daemon

import (
	"context"
	"fmt"
	"strings"
	"time"

	"assay/sidecar/cli"
	"assay/sidecar/doctor"
)

// Doctor checks the service that Serve with the same flags would start, without starting it.
type Doctor struct {
	Serve
	JSON bool `name:"json" help:"Print one JSON object with all findings, instead of one line per finding."`
}

// Help is shown by --help.
func (*Doctor) Help() string {
	return `Example:

    assay doctor --listen 127.0.0.1:8080 --data-dir ./data

Takes the settings of assay serve (flags, environment, --config), and reports on the service that they would start on this
machine: each finding is ok, a warning or an error, and says what to change. It loads the model and scores a sentence,
connects to NATS, and writes a temporary file to the data directory; it changes nothing else. Exits with 1 if there is an
error, and with 0 if there are only warnings.`
}

// Run is called by kong.
func (c *Doctor) Run(a *cli.App) error {
	ctx, stop := a.UntilSignal()
	defer stop()
	cfg, err := c.Config()
	settings := doctor.Check{Name: "settings", Timeout: settingsTimeout, Run: func(context.Context) []doctor.Finding {
		return settingsFindings(c.CheckSettings(), err)
	}}
	write := doctor.WriteText
	if c.JSON {
		write = doctor.WriteJSON
	}
	report, err := write(a.Stdout, doctor.Run(ctx, append([]doctor.Check{settings}, doctor.Service(cfg)...)))
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case report.Errors > 0:
		return fmt.Errorf("errors: %d, warnings: %d", report.Errors, report.Warnings)
	}
	return nil
}

// settingsTimeout bounds the check of the settings, which may resolve host names.
const settingsTimeout = 10 * time.Second

// settingsFindings has one finding for each line of the errors.
func settingsFindings(errs ...error) (found []doctor.Finding) {
	for _, err := range errs {
		if err == nil {
			continue
		}
		for line := range strings.Lines(err.Error()) {
			found = append(found, doctor.Finding{Check: "settings", Status: doctor.Error, Detail: strings.TrimSpace(line), Fix: "correct the flag, its environment variable, or its key in the file of --config"})
		}
	}
	if found == nil {
		return []doctor.Finding{{Check: "settings", Status: doctor.OK, Detail: "valid"}}
	}
	return found
}
