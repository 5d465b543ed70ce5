package paper

import (
	"fmt"
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// bar is the result of one setting of BFGPU.
type bar struct {
	name string
	at   stat
}

// ablationBars are the settings and the placements of T at one sigma_micro, on the seeds that all settings have; the
// first is the default.
func (g group) ablationBars(sigma int) []bar {
	var bars []bar
	common := commonSeeds(g.of(BFGPU), sigma)
	for _, s := range g.of(BFGPU) {
		runs := onSeeds(s.at[sigma], common)
		at, ok := over(runs, avgAcc)
		if !ok {
			continue
		}
		if s.changed != "" {
			bars = append(bars, bar{s.changed, at})
			continue
		}
		bars = append(bars, bar{"defaults", at})
		kinds := map[string]bool{}
		for _, r := range runs {
			for name := range r.AtThreshold {
				kinds[name] = name != s.settings["threshold"]
			}
		}
		for _, name := range sortedKeys(kinds) {
			if !kinds[name] {
				continue // the default, again
			}
			if at, ok := statOf(values(runs, func(r Record) (float64, bool) { d, ok := r.AtThreshold[name]; return d.AvgAcc, ok })); ok {
				bars = append(bars, bar{"threshold=" + name, at})
			}
		}
	}
	return bars
}

// ablationFigure plots the bars of one sigma_micro from the top down, nil with fewer than two.
func (g group) ablationFigure(sigma int) (*figure, error) {
	bars := g.ablationBars(sigma)
	if len(bars) < 2 {
		return nil, nil
	}
	f := newFigure(fmt.Sprintf("%s: BFGPU's settings, %s, %s", g.short(), sigmaTitle(sigma), seedsTitle(commonSeeds(g.of(BFGPU), sigma))), "AvgAcc, %", "")
	heights := make(plotter.Values, len(bars))
	names := make(plot.ConstantTicks, len(bars))
	var spread struct {
		plotter.XYs
		plotter.XErrors
	}
	for i, b := range bars {
		at := len(bars) - 1 - i
		heights[at] = b.at.mean
		names[at] = plot.Tick{Value: float64(at), Label: b.name}
		if !math.IsNaN(b.at.sd) {
			spread.XYs = append(spread.XYs, plotter.XY{X: b.at.mean, Y: float64(at)})
			spread.XErrors = append(spread.XErrors, struct{ Low, High float64 }{b.at.sd, b.at.sd})
		}
	}
	chart, err := plotter.NewBarChart(heights, vg.Points(11))
	if err != nil {
		return nil, fmt.Errorf("paper: plot: %w", err)
	}
	chart.Horizontal, chart.Color, chart.LineStyle.Width = true, lineColor(1), 0
	base, err := plotter.NewLine(plotter.XYs{{X: bars[0].at.mean, Y: -0.6}, {X: bars[0].at.mean, Y: float64(len(bars)) - 0.4}})
	if err != nil {
		return nil, fmt.Errorf("paper: plot: %w", err)
	}
	base.Dashes, base.Color = dashed(), color.Black
	f.Add(chart, base)
	if len(spread.XYs) > 0 {
		errors, err := plotter.NewXErrorBars(spread)
		if err != nil {
			return nil, fmt.Errorf("paper: plot: %w", err)
		}
		f.Add(errors)
	}
	f.Y.Tick.Marker = names
	f.X.Min, f.X.Max = 40, 100 // chance is 50
	f.X.Tick.Marker = percentTicks(40, 100)
	f.Y.Min, f.Y.Max = -0.6, float64(len(bars))-0.4
	return f, nil
}

// scoresFigure plots the histograms of a run's bag scores and its T, nil when none were recorded.
func (g group) scoresFigure(s series, sigma int, split string) (*figure, error) {
	if len(s.at[sigma]) == 0 {
		return nil, nil
	}
	run := s.at[sigma][0]
	h := run.Test
	if split == "train" {
		h = run.Train
	}
	if h.IsZero() {
		return nil, nil
	}
	f := newFigure(fmt.Sprintf("%s: bag scores after %s, %s, %s, seed %d", g.short(), title(s.method), split, sigmaTitle(sigma), run.Spec.Seed),
		"maximum g_-1 of the bag", "bags")
	most := 0
	for i, class := range []struct {
		name   string
		counts []int
	}{{"anomalous", h.Violation}, {"normal", h.Compliant}} {
		outline := plotter.XYs{{X: 0, Y: 0}}
		for bin, n := range class.counts {
			low, high := float64(bin)/HistogramBins, float64(bin+1)/HistogramBins
			outline = append(outline, plotter.XY{X: low, Y: float64(n)}, plotter.XY{X: high, Y: float64(n)})
			most = max(most, n)
		}
		outline = append(outline, plotter.XY{X: 1, Y: 0})
		line, err := plotter.NewLine(outline)
		if err != nil {
			return nil, fmt.Errorf("paper: plot: %w", err)
		}
		line.Color, line.Width = lineColor(i), vg.Points(1.4)
		f.Add(line)
		f.name(class.name, line)
	}
	at, err := plotter.NewLine(plotter.XYs{{X: run.Threshold, Y: 0}, {X: run.Threshold, Y: float64(most)}})
	if err != nil {
		return nil, fmt.Errorf("paper: plot: %w", err)
	}
	at.Dashes = dashed()
	f.Add(at)
	f.name("T = "+strconv.FormatFloat(run.Threshold, 'f', 4, 64), at)
	f.X.Min, f.X.Max = 0, 1
	return f, nil
}
