package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/rs/zerolog"
)

// App is the environment of a command: everything that it needs in addition to its flags.
type App struct {
	Context  context.Context
	Program  string // the name that it was called by, for commands to paste
	Stdin    io.Reader
	Stdout   io.Writer
	Stderr   io.Writer
	Log      zerolog.Logger
	Settings *Settings // nil without --config
	JSONLogs bool      // --log-format json was given: stderr gets only JSON
}

// UntilSignal returns a context that ends at the first SIGINT or SIGTERM, for
// commands that shut down gracefully. A second signal kills the process.
func (a *App) UntilSignal() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(a.Context, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
