package paper

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Board is an Observer that shows progress on a terminal. It has no clock: every call of Lines passes the elapsed time.
type Board struct {
	mu      sync.Mutex
	total   int // outstanding runs at the start
	done    int
	failed  int
	active  []activity // by worker
	endings []string   // since the last call of Endings
}

type activity struct {
	busy        bool
	spec        Spec
	done, total int
	stage       string
	loss        float64
}

// NewBoard returns a board for that many workers and outstanding runs.
func NewBoard(workers, runs int) *Board {
	return &Board{total: runs, active: make([]activity, max(workers, 1))}
}

// Started is called by the runner.
func (b *Board) Started(worker int, s Spec) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.active[worker] = activity{busy: true, spec: s}
}

// Progressed is called by the runner.
func (b *Board) Progressed(worker, done, total int, stage string, loss float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := &b.active[worker]
	a.done, a.total, a.stage, a.loss = done, total, stage, loss
}

// Ended is called by the runner.
func (b *Board) Ended(worker int, s Spec, r Record, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.active[worker] = activity{}
	if err != nil && !errors.Is(err, ErrDuplicate) {
		b.failed++
	} else {
		b.done++
	}
	b.endings = append(b.endings, Ending(s, r, err))
}

// Ending describes the result of a run in one line.
func Ending(s Spec, r Record, err error) string {
	if err != nil {
		return fmt.Sprintf("%s: %v", s.Key(), err)
	}
	return fmt.Sprintf("%s: AvgAcc %s, best T %s, AUROC %s, in %s", s.Key(), percentOf(r, avgAcc), percentOf(r, BestAvgAcc),
		percentOf(r, bagAUROC), clock(time.Duration(r.WallSeconds*float64(time.Second))))
}

func percentOf(r Record, metric string) string {
	v, ok := r.Metrics[metric]
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.2f", 100*v)
}

// Endings returns a line for each run that ended since the last call.
func (b *Board) Endings() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.endings
	b.endings = nil
	return out
}

// Lines returns the lines of the board.
func (b *Board) Lines(elapsed time.Duration) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	head := fmt.Sprintf("%d of %d runs done, %d failed, %s elapsed", b.done, b.total, b.failed, clock(elapsed))
	if left, ok := b.remaining(elapsed); ok {
		head += ", about " + clock(left) + " left"
	}
	lines := []string{head, fmt.Sprintf("%-14s %-11s %-26s %4s  %-14s %11s %8s", "data", "sigma", "method", "seed", "stage", "step", "loss")}
	for _, a := range b.active {
		if !a.busy {
			continue
		}
		sigma := "real bags"
		if a.spec.SigmaMicro > 0 {
			sigma = fmt.Sprintf("%d, macro %d", a.spec.SigmaMicro, a.spec.SigmaMacro)
		}
		line := fmt.Sprintf("%-14s %-11s %-26s %4d  ", a.spec.Dataset, sigma, a.spec.Method, a.spec.Seed)
		if a.total > 0 {
			line += fmt.Sprintf("%-14s %11s %8.4f", a.stage, fmt.Sprintf("%d/%d", a.done, a.total), a.loss)
		} else {
			line += "starting"
		}
		if settings := difference(a.spec); settings != "" {
			line += "  " + settings
		}
		lines = append(lines, line)
	}
	return lines
}

// remaining extrapolates from the completed runs and the completed steps of the active ones.
func (b *Board) remaining(elapsed time.Duration) (time.Duration, bool) {
	ended := b.done + b.failed
	share := float64(ended)
	for _, a := range b.active {
		if a.busy && a.total > 0 {
			share += float64(min(a.done, a.total)) / float64(a.total)
		}
	}
	if share <= 0 || ended >= b.total {
		return 0, false
	}
	return time.Duration(float64(elapsed) * (float64(b.total) - share) / share), true
}

// clock formats a duration for people: 1h02m, 3m05s, 12s.
func clock(d time.Duration) string {
	switch d = d.Round(time.Second); {
	case d >= time.Hour:
		d = d.Round(time.Minute)
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return d.String()
}

// Screen overwrites its last lines on a terminal with ANSI escape sequences.
type Screen struct {
	W     io.Writer
	Width int // columns; longer lines are truncated, since a line that wraps could not be overwritten. 0: no limit

	height int // lines of the last board
}

// Draw replaces the board. The lines of above stay on the screen before it.
func (s *Screen) Draw(above, board []string) error {
	var out strings.Builder
	if s.height > 0 {
		fmt.Fprintf(&out, "\x1b[%dA\r\x1b[J", s.height)
	}
	for _, line := range above {
		out.WriteString(line + "\n")
	}
	for _, line := range board {
		if runes := []rune(line); s.Width > 1 && len(runes) >= s.Width {
			line = string(runes[:s.Width-1])
		}
		out.WriteString(line + "\n")
	}
	s.height = len(board)
	_, err := io.WriteString(s.W, out.String())
	return err
}
