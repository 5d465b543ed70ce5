package paper

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// curvesAtMost is the maximum number of methods in a readable plot.
const curvesAtMost = 7

// leading picks the methods to plot: BFGPU, the macro supervised one, the oracle, and the best of the others.
func (g group) leading() []series {
	rows := g.defaults()
	score := func(s series) float64 {
		switch s.method {
		case BFGPU, Macro, Oracle:
			return math.Inf(1)
		}
		sum, n := 0.0, 0
		for _, sigma := range g.sigmas {
			if at, ok := over(s.at[sigma], avgAcc); ok {
				sum, n = sum+at.mean, n+1
			}
		}
		if n == 0 {
			return math.Inf(-1)
		}
		return sum / float64(n)
	}
	slices.SortStableFunc(rows, func(a, b series) int { return cmp.Compare(score(b), score(a)) })
	rows = rows[:min(len(rows), curvesAtMost)]
	slices.SortFunc(rows, compareSeries)
	return rows
}

// band is the spread of a curve in the form that plotter's error bars need.
type band struct {
	plotter.XYs
	plotter.YErrors
}

// sweepFigure plots a metric against sigma_micro: ours as solid lines with the sd over seeds, the paper's as dashed lines.
func (g group) sweepFigure(index published, metric string) (*figure, error) {
	f := newFigure(fmt.Sprintf("%s: %s", g.short(), metricTitle(metric)), "sigma_micro", metricTitle(metric)+", %")
	f.X.Tick.Marker = sigmaTicks(g.sigmas)
	for i, s := range g.leading() {
		var ours, theirs plotter.XYs
		var spread band
		for _, sigma := range g.sigmas {
			if at, ok := over(s.at[sigma], metric); ok {
				ours = append(ours, plotter.XY{X: float64(sigma), Y: at.mean})
				if !math.IsNaN(at.sd) {
					spread.XYs = append(spread.XYs, plotter.XY{X: float64(sigma), Y: at.mean})
					spread.YErrors = append(spread.YErrors, struct{ Low, High float64 }{at.sd, at.sd})
				}
			}
			if p, ok := g.published(index, metric, s, strconv.Itoa(sigma)); ok {
				theirs = append(theirs, plotter.XY{X: float64(sigma), Y: p.Mean})
			}
		}
		if len(ours) == 0 {
			continue
		}
		line, points, err := plotter.NewLinePoints(ours)
		if err != nil {
			return nil, fmt.Errorf("paper: plot: %w", err)
		}
		line.Color, line.Width = lineColor(i), vg.Points(1.6)
		points.Color, points.Shape, points.Radius = lineColor(i), draw.CircleGlyph{}, vg.Points(2.5)
		f.Add(line, points)
		if len(spread.XYs) > 0 {
			bars, err := plotter.NewYErrorBars(spread)
			if err != nil {
				return nil, fmt.Errorf("paper: plot: %w", err)
			}
			bars.Color = lineColor(i)
			f.Add(bars)
		}
		f.name(title(s.method), line, points)
		if len(theirs) == 0 {
			continue
		}
		dash, err := plotter.NewLine(theirs)
		if err != nil {
			return nil, fmt.Errorf("paper: plot: %w", err)
		}
		dash.Color, dash.Dashes = lineColor(i), dashed()
		f.Add(dash)
		f.name("  paper", dash)
	}
	f.Y.Min, f.Y.Max = 5*math.Floor(f.Y.Min/5), 5*math.Ceil(f.Y.Max/5)
	f.Y.Tick.Marker = percentTicks(f.Y.Min, f.Y.Max)
	return f, nil
}

// percentTicks marks every five percent, or every ten over a long range.
func percentTicks(low, high float64) plot.ConstantTicks {
	step := 5.0
	if high-low > 40 {
		step = 10
	}
	var ticks plot.ConstantTicks
	for v := step * math.Ceil(low/step); v <= high; v += step {
		ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%.0f", v)})
	}
	return ticks
}

// sigmaTicks marks the sigmas that were run.
func sigmaTicks(sigmas []int) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for _, sigma := range sigmas {
		ticks = append(ticks, plot.Tick{Value: float64(sigma), Label: strconv.Itoa(sigma)})
	}
	return ticks
}

// lossFigure plots the mean loss of each stage of one run of the leading methods, nil when none was recorded.
func (g group) lossFigure() (*figure, error) {
	sigma := g.sigmas[0]
	f := newFigure(fmt.Sprintf("%s: training loss, %s", g.short(), sigmaTitle(sigma)), "optimizer step", "loss (mean of the stage so far)")
	lines := 0
	for _, s := range g.leading() {
		if len(s.at[sigma]) == 0 {
			continue
		}
		run := s.at[sigma][0]
		stages := map[string]plotter.XYs{}
		var order []string
		for _, p := range run.Loss {
			if stages[p.Stage] == nil {
				order = append(order, p.Stage)
			}
			stages[p.Stage] = append(stages[p.Stage], plotter.XY{X: float64(p.Step), Y: p.Loss})
		}
		for i, stage := range order {
			line, err := plotter.NewLine(stages[stage])
			if err != nil {
				return nil, fmt.Errorf("paper: plot: %w", err)
			}
			line.Color, line.Width = lineColor(lines), vg.Points(1.2)
			if i > 0 {
				line.Dashes = dashed()
			}
			f.Add(line)
			name := title(s.method)
			if len(order) > 1 {
				name += ", " + stage
			}
			f.name(name, line)
		}
		if len(order) > 0 {
			lines++
		}
	}
	if lines == 0 {
		return nil, nil
	}
	return f, nil
}

// short is the recipe in the title of a plot.
func (r recipe) short() string {
	name := datasetTitle(r.dataset)
	if r.macro > 1 {
		name += fmt.Sprintf(", sigma_macro %d", r.macro)
	}
	return name + ", " + r.backbone
}
