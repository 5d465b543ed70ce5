package cli

import (
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"github.com/schollz/progressbar/v3"
)

// Progress shows how far long work is: a bar on a terminal, a log line now and
// then elsewhere.
type Progress struct {
	log     zerolog.Logger
	bar     *progressbar.ProgressBar // nil without a terminal
	what    string
	done    int
	started time.Time
	logged  time.Time
}

// LogEvery is the interval of log lines about progress.
const LogEvery = 15 * time.Second

// NewProgress begins to show work on total bytes of input, -1 when unknown. what
// names the things that are counted, in the plural.
func (a *App) NewProgress(what string, total int64) *Progress {
	p := &Progress{log: a.Log, what: what, started: time.Now(), logged: time.Now()}
	// Results on the same terminal would tear the bar apart.
	if IsTerminal(a.Stderr) && !IsTerminal(a.Stdout) && !a.JSONLogs {
		p.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(a.Stderr), progressbar.OptionShowBytes(total > 0),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetDescription(what), progressbar.OptionSetWidth(30))
	}
	return p
}

// Add counts n things that took so many bytes of the input.
func (p *Progress) Add(n, bytes int) {
	p.done += n
	if p.bar != nil {
		p.bar.Describe(fmt.Sprintf("%d %s", p.done, p.what))
		_ = p.bar.Add(bytes) // a bar that cannot be drawn is no failure
		return
	}
	if time.Since(p.logged) >= LogEvery {
		p.logged = time.Now()
		p.line("in progress")
	}
}

// Finish clears the bar and says what was done.
func (p *Progress) Finish() {
	p.Clear()
	p.line("done")
}

// Clear removes the bar, after work that failed.
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
