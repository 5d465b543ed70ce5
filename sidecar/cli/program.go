package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/alecthomas/kong"
)

// Program is a command line: the commands of a binary and how to parse them.
type Program struct {
	Name        string
	Description string
	// New returns an empty command tree for kong to fill, and the flags in it that all commands share.
	New func() (commands any, shared *GlobalFlags)
	// Version writes the version and build information for --version.
	Version func(io.Writer) error
	// Defaults are the variables that the tags of flags use as ${name}; later ones replace earlier ones.
	Defaults []kong.Vars
}

// Run runs the command that args name; args[0] is the name that the binary was called by. It returns the exit code.
func (p Program) Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	stdout = &output{w: stdout}
	commands, shared := p.New()
	parser, err := p.Parser(commands, stdout, stderr)
	if err != nil {
		return p.Fail(stderr, err)
	}
	parsed, err := parser.Parse(args[1:])
	switch {
	case errors.Is(err, errHelp):
		return ExitDone
	case errors.Is(err, errVersion):
		if err := p.Version(stdout); err != nil {
			return p.Fail(stderr, err)
		}
		return ExitDone
	case err != nil:
		return p.Fail(stderr, Usage(fmt.Errorf("%w\nRun %s --help", err, p.commandOf(args))))
	}
	level := &LogLevel{}
	a := &App{
		Context: ctx, Program: args[0], Stdin: stdin, Stdout: stdout, Stderr: stderr,
		Log: shared.Logger(stderr, level), JSONLogs: shared.LogFormat == FormatJSON,
	}
	if shared.Config != "" {
		a.Settings = NewSettings(p, args[1:], parsed, string(shared.Config), level, a.Log)
	}
	err = parsed.Run(a)
	code := ExitCode(err)
	if code != ExitDone {
		a.Log.Error().Msg(err.Error())
	}
	return code
}

// Parser returns a parser that fills commands, a tree from New.
func (p Program) Parser(commands any, stdout, stderr io.Writer) (*kong.Kong, error) {
	return kong.New(commands,
		kong.Name(p.Name),
		kong.Description(p.Description),
		kong.NoDefaultHelp(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
		kong.Writers(stdout, stderr),
		kong.PostBuild(nameEnvironment),
		kong.PostBuild(p.setDefaults),
	)
}

// setDefaults replaces the variables of Defaults. As variables of kong they would delay every start: for each flag, kong
// searches the value of every variable for other variables.
func (p Program) setDefaults(k *kong.Kong) error {
	vars := kong.Vars{}
	for _, more := range p.Defaults {
		maps.Copy(vars, more)
	}
	var replacements []string
	for name, value := range vars {
		replacements = append(replacements, "${"+name+"}", value)
	}
	defaults := strings.NewReplacer(replacements...)
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		switch n := node.(type) {
		case *kong.Node:
			n.Help = defaults.Replace(n.Help)
		case *kong.Value:
			for _, text := range []*string{&n.Default, &n.Enum, &n.Help} {
				*text = defaults.Replace(*text)
			}
			if n.Flag != nil {
				n.Flag.PlaceHolder = defaults.Replace(n.Flag.PlaceHolder)
			}
		}
		return next(nil)
	})
}

// Fail prints an error that occurs before there is a logger, and returns the exit code.
func (p Program) Fail(stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
	return ExitCode(err)
}

// commandOf is the command to run with --help.
func (p Program) commandOf(args []string) string {
	if len(args) > 1 && len(args[1]) > 0 && args[1][0] != '-' {
		return p.Name + " " + args[1]
	}
	return p.Name
}

// nameEnvironment assigns every flag its environment variable, ASSAY_<FLAG>, except those that replace the command.
func nameEnvironment(k *kong.Kong) error {
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok && flag.Name != "help" && flag.Name != "version" {
			flag.Envs = []string{environmentName(flag.Name)}
			flag.Tag.Envs = flag.Envs
		}
		return next(nil)
	})
}

func environmentName(flag string) string {
	return EnvironmentPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// EnvironmentPrefix is the prefix of the environment variables that set flags.
const EnvironmentPrefix = "ASSAY_"
