package main

import (
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"github.com/schollz/progressbar/v3"
)

// progress shows how far long work is: a bar on a terminal, a log line now and
// then elsewhere.
type progress struct {
	log     zerolog.Logger
	bar     *progressbar.ProgressBar // nil without a terminal
	what    string
	done    int
	started time.Time
	told    time.Time
}

// tellEvery is how often the log hears of progress.
const tellEvery = 15 * time.Second

// progress begins to show work on total bytes of input, -1 when unknown. what
// names the things that are counted, in the plural.
func (a *app) progress(what string, total int64) *progress {
	p := &progress{log: a.log, what: what, started: time.Now(), told: time.Now()}
	// Results on the same terminal would tear the bar apart.
	if isTerminal(a.stderr) && !isTerminal(a.stdout) && !a.json {
		p.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(a.stderr), progressbar.OptionShowBytes(total > 0),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetDescription(what), progressbar.OptionSetWidth(30))
	}
	return p
}

// add counts n things that took so many bytes of the input.
func (p *progress) add(n, bytes int) {
	p.done += n
	if p.bar != nil {
		p.bar.Describe(fmt.Sprintf("%d %s", p.done, p.what))
		_ = p.bar.Add(bytes) // a bar that cannot be drawn is no failure
		return
	}
	if time.Since(p.told) >= tellEvery {
		p.told = time.Now()
		p.line("in progress")
	}
}

// finish clears the bar and says what was done.
func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	p.line("done")
}

func (p *progress) line(state string) {
	seconds := time.Since(p.started).Seconds()
	p.log.Info().Int(p.what, p.done).Float64("seconds", float64(int(seconds*10))/10).
		Int("per_second", int(float64(p.done)/max(seconds, 1e-3))).Msg(state)
}
