package commands

import (
	"io"

	"github.com/alecthomas/kong"

	"assay/sidecar/cli"
	"assay/sidecar/completion"
)

// Completion prints the script with which a shell completes command lines.
type Completion struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell (${enum})."`
}

// Help is shown by --help.
func (*Completion) Help() string {
	return `Example:

    source <(assay completion bash)          # in ~/.bashrc
    source <(assay completion zsh)           # in ~/.zshrc, after compinit
    assay completion fish | source           # in ~/.config/fish/config.fish`
}

// Run is called by kong.
func (c *Completion) Run(a *cli.App, parsed *kong.Context) error {
	script, err := completion.Script(parsed.Model, c.Shell)
	if err != nil {
		return cli.Usage(err)
	}
	_, err = io.WriteString(a.Stdout, script)
	return err
}
