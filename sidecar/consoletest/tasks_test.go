package consoletest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// task is a task of the main thread of a page, which blocks the page until it ends.
type task struct {
	duration time.Duration
	cpu      time.Duration // without the time in which the thread did not run, as on a busy machine
	parts    []string      // its longest parts
}

func (t task) String() string {
	return fmt.Sprintf("%v of CPU time in %v (%s)", t.cpu.Round(time.Millisecond), t.duration.Round(time.Millisecond), strings.Join(t.parts, ", "))
}

// traceEvent is an event of Chromium's trace format. Times are in microseconds.
type traceEvent struct {
	Name  string  `json:"name"`
	Phase string  `json:"ph"`
	PID   int     `json:"pid"`
	TID   int     `json:"tid"`
	Start float64 `json:"ts"`
	Took  float64 `json:"dur"`
	CPU   float64 `json:"tdur"`
	Args  struct {
		Name string `json:"name"`
	} `json:"args"`
}

// tasksDuring returns the tasks of a page while f runs, the one with the most CPU time first.
func (b *tab) tasksDuring(f func()) []task {
	b.t.Helper()
	b.mu.Lock()
	b.trace, b.traced = nil, make(chan struct{})
	b.mu.Unlock()
	config := &tracing.TraceConfig{IncludedCategories: []string{"devtools.timeline", "disabled-by-default-devtools.timeline"}, ExcludedCategories: []string{"*"}}
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, tracing.Start, tracing.StartParams{TraceConfig: config})
		return err
	}))
	f()
	b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, tracing.End, cdp.Empty{})
		return err
	}))
	select {
	case <-b.traced:
	case <-time.After(stepTimeout):
		b.t.Fatal("the trace does not end")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return tasksOf(b.t, b.trace)
}

// tasksOf returns the tasks of the main threads of pages in a trace.
func tasksOf(t *testing.T, raw []json.RawMessage) (tasks []task) {
	t.Helper()
	events := make([]traceEvent, len(raw))
	main := map[[2]int]bool{}
	for i, text := range raw {
		_ = json.Unmarshal(text, &events[i]) // args have other types in events that do not matter here
		if e := events[i]; e.Name == "thread_name" && e.Args.Name == "CrRendererMain" {
			main[[2]int{e.PID, e.TID}] = true
		}
	}
	microseconds := func(n float64) time.Duration { return time.Duration(n * float64(time.Microsecond)) }
	for _, e := range events {
		if e.Name != "RunTask" || e.Phase != "X" || !main[[2]int{e.PID, e.TID}] {
			continue
		}
		found := task{duration: microseconds(e.Took), cpu: microseconds(e.CPU)}
		for _, part := range events {
			if e.CPU > 10_000 && part.PID == e.PID && part.TID == e.TID && part.Phase == "X" && part.Start > e.Start && part.Start+part.Took <= e.Start+e.Took && part.CPU > e.CPU/5 {
				found.parts = append(found.parts, part.Name+" "+microseconds(part.CPU).String())
			}
		}
		tasks = append(tasks, found)
	}
	require.NotEmpty(t, tasks, "of %d events", len(events))
	slices.SortFunc(tasks, func(a, b task) int { return int(b.cpu - a.cpu) })
	return tasks
}
