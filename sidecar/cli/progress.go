package cli

import (
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"github.com/schollz/progressbar/v3"
)

// Progress shows the progress of a long operation: a bar on a terminal, a log line
// every LogEvery otherwise.
type Progress struct {
	log     zerolog.Logger
	bar     *progressbar.ProgressBar // nil without a terminal
	what    string
	done    int
	started time.Time
	logged  time.Time
}

// LogEvery is the interval of progress log lines.
const LogEvery = 15 * time.Second

// NewProgress starts to show progress on total bytes of input, -1 if unknown. what
// is the plural name of the counted items.
func (a *App) NewProgress(what string, total int64) *Progress {
	p := &Progress{log: a.Log, what: what, started: time.Now(), logged: time.Now()}
	// Results on the same terminal would garble the bar.
	if IsTerminal(a.Stderr) && !IsTerminal(a.Stdout) && !a.JSONLogs {
		p.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(a.Stderr), progressbar.OptionShowBytes(total > 0),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetDescription(what), progressbar.OptionSetWidth(30))
	}
	return p
}

// Add counts n items that used bytes of the input.
func (p *Progress) Add(n, bytes int) {
	p.done += n
	if p.bar != nil {
		p.bar.Describe(fmt.Sprintf("%d %s", p.done, p.what))
		_ = p.bar.Add(bytes) // a display error does not fail the command
		return
	}
	if time.Since(p.logged) >= LogEvery {
		p.logged = time.Now()
		p.line("in progress")
	}
}

// Finish clears the bar and logs the total.
func (p *Progress) Finish() {
	p.Clear()
	p.line("done")
}

// Clear removes the bar, after a failure.
func (p *Progress) Clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

func (p *Progress) line(state string) {
	seconds := time.Since(p.started).Seconds()
	p.log.Info().Int(p.what, p.done).Float64("seconds", float64(int(seconds*10))/10).
		Int("per_second", int(float64(p.done)/max(seconds, 1e-3))).Msg(state)
}
