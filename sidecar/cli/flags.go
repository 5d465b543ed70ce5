package cli

import (
	"errors"
	"io"
	"os"

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"
	"golang.org/x/term"
)

// The log formats.
const (
	formatAuto    = "auto"
	formatConsole = "console"
	FormatJSON    = "json"
)

// Flags that replace the command: errHelp reports that the help was shown, errVersion that the version is requested.
var (
	errHelp    = errors.New("help was shown")
	errVersion = errors.New("version is requested")
)

// helpFlag shows the help of the command that it is given to.
type helpFlag bool

// BeforeReset is called by kong when the flag is present.
func (helpFlag) BeforeReset(ctx *kong.Context) error {
	if err := ctx.PrintUsage(false); err != nil {
		return err
	}
	return errHelp
}

// versionFlag shows what the version command shows.
type versionFlag bool

// BeforeReset is called by kong when the flag is present.
func (versionFlag) BeforeReset() error { return errVersion }

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	if o, ok := stream.(*output); ok {
		stream = o.w
	}
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// GlobalFlags are the flags that every command has.
type GlobalFlags struct {
	Help      helpFlag    `short:"h" help:"Show help."`
	Version   versionFlag `help:"Show version and build information."`
	Config    configFlag  `placeholder:"FILE.yaml" help:"YAML file of settings, one key per flag. The command line takes precedence over the environment, and the environment over the file."`
	LogLevel  string      `default:"info" enum:"trace,debug,info,warn,error" help:"Minimum log level (${enum})."`
	LogFormat string      `default:"auto" enum:"auto,console,json" help:"Log format on standard error (${enum}); auto: console on a terminal, JSON otherwise."`
}

// Logger returns a logger that writes to w in the format that the flags select. level is its level and that of all
// loggers derived from it.
func (f GlobalFlags) Logger(w io.Writer, level *LogLevel) zerolog.Logger {
	level.set(f.LogLevel)
	if f.LogFormat == formatConsole || f.LogFormat == formatAuto && IsTerminal(w) {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: "15:04:05", NoColor: !IsTerminal(w) || os.Getenv("NO_COLOR") != ""}
	}
	return zerolog.New(lineLimiter{w}).Sample(level).With().Timestamp().Logger()
}
