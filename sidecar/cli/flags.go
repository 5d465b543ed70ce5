package cli

import (
	"errors"
	"io"
	"os"

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"
	"golang.org/x/term"
)

// The forms of the logs.
const (
	formatAuto    = "auto"
	formatConsole = "console"
	FormatJSON    = "json"
)

// errHelp says that the help was shown, which is all that was asked.
var errHelp = errors.New("help was shown")

// helpFlag shows the help of the command that it is given to.
type helpFlag bool

// BeforeReset is called by kong when the flag is present.
func (helpFlag) BeforeReset(ctx *kong.Context) error {
	if err := ctx.PrintUsage(false); err != nil {
		return err
	}
	return errHelp
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	if o, ok := stream.(*output); ok {
		stream = o.w
	}
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// GlobalFlags are those of every command.
type GlobalFlags struct {
	Help      helpFlag   `short:"h" help:"Show help."`
	Config    configFlag `placeholder:"FILE.yaml" help:"Read flags from a YAML file, one key a flag. A flag wins over the environment, and that over the file."`
	LogLevel  string     `default:"info" enum:"trace,debug,info,warn,error" help:"Least severe log line (${enum})."`
	LogFormat string     `default:"auto" enum:"auto,console,json" help:"Form of the logs on standard error (${enum}); auto: console on a terminal, else JSON."`
}

// Logger writes to w in the form that the flags choose. Its level, and that of all loggers made from it, is level.
func (f GlobalFlags) Logger(w io.Writer, level *LogLevel) zerolog.Logger {
	level.set(f.LogLevel)
	if f.LogFormat == formatConsole || f.LogFormat == formatAuto && IsTerminal(w) {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: "15:04:05", NoColor: !IsTerminal(w) || os.Getenv("NO_COLOR") != ""}
	}
	return zerolog.New(shortLines{w}).Sample(level).With().Timestamp().Logger()
}
