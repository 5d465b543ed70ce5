package main

import (
	"fmt"
	"os"
	"time"
)

// step prints one line of the set-up.
func step(format string, args ...any) {
	fmt.Printf("set-up: "+format+"\n", args...)
}

// megabytes renders a size in bytes as whole MB.
func megabytes(n int64) string {
	if n < 10e6 {
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%d MB", n/1e6)
}

// progress prints the progress of a long stage: on a terminal it rewrites one line,
// otherwise (in a log) it prints a line at each tenth.
type progress struct {
	what     string
	total    int64
	terminal bool
	start    time.Time
	shown    time.Time
	tenth    int64
}

func newProgress(what string, total int64) *progress {
	info, err := os.Stdout.Stat()
	return &progress{
		what: what, total: max(total, 1), start: time.Now(),
		terminal: err == nil && info.Mode()&os.ModeCharDevice != 0,
	}
}

// update prints that done of total bytes are processed.
func (p *progress) update(done int64) {
	done = min(done, p.total)
	line := fmt.Sprintf("set-up:   %s: %s of %s (%d %%)", p.what, megabytes(done), megabytes(p.total), 100*done/p.total)
	switch {
	case p.terminal && time.Since(p.shown) > 100*time.Millisecond:
		fmt.Printf("\r%s\x1b[K", line)
		p.shown = time.Now()
	case !p.terminal && 10*done/p.total > p.tenth:
		fmt.Println(line)
		p.tenth = 10 * done / p.total
	}
}

// finish ends the stage with its duration.
func (p *progress) finish() {
	if p.terminal {
		fmt.Print("\r\x1b[K")
	}
	step("  %s: %s in %s", p.what, megabytes(p.total), time.Since(p.start).Round(100*time.Millisecond))
}
