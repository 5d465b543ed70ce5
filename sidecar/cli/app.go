package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/rs/zerolog"
)

// App is what a command works with beside its own flags.
type App struct {
	Context  context.Context
	Program  string // as it was called, to be pasted in examples
	Stdin    io.Reader
	Stdout   io.Writer
	Stderr   io.Writer
	Log      zerolog.Logger
	Settings *Settings // nil without --config
	JSONLogs bool      // logs are JSON because the user said so: nothing else goes to stderr
}

// UntilSignal ends the context at the first SIGINT or SIGTERM, for commands
// that have something to finish. A second signal ends the process at once.
func (a *App) UntilSignal() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(a.Context, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
