package report

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// The size of a chart in its own units. Charts scale with the page.
const (
	chartWidth, chartHeight = 640.0, 200.0
	axis                    = 28.0 // room of the labels below
)

// bars draws a histogram. Each bar tells its range and count on hover.
func bars(d Distribution) template.HTML {
	most := 1
	for _, n := range d.Bins {
		most = max(most, n)
	}
	var b strings.Builder
	width, step := chartWidth/float64(len(d.Bins)), (d.High-d.Low)/float64(len(d.Bins))
	for i, n := range d.Bins {
		height := (chartHeight - axis) * float64(n) / float64(most)
		from := d.Low + step*float64(i)
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s to %s: %d</title></rect>`,
			width*float64(i)+1, chartHeight-axis-height, width-2, height, number(from), number(from+step), n)
	}
	for _, at := range []float64{0, 0.25, 0.5, 0.75, 1} {
		label(&b, chartWidth*at, number(d.Low+at*(d.High-d.Low)), at)
	}
	return chart("Histogram of the rewards", b.String())
}

// point is a point of a line: x and y in [0,1], and what it tells on hover.
type point struct {
	x, y  float64
	title string
}

// curve draws a line through points, with the labels of the x axis at its ends. ideal adds the diagonal.
func curve(name string, points []point, left, right string, ideal bool) template.HTML {
	var path, b strings.Builder
	height := chartHeight - axis
	if ideal {
		fmt.Fprintf(&b, `<line class="ideal" x1="0" y1="%.1f" x2="%.1f" y2="0"/>`, height, chartWidth)
	}
	for i, p := range points {
		x, y := chartWidth*p.x, height*(1-p.y)
		command := "L"
		if i == 0 {
			command = "M"
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", command, x, y)
		fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="4"><title>%s</title></circle>`, x, y, template.HTMLEscapeString(p.title))
	}
	fmt.Fprintf(&b, `<path d="%s"/>`, path.String())
	label(&b, 0, left, 0)
	label(&b, chartWidth, right, 1)
	return chart(name, b.String())
}

// label writes a label below the chart. At the ends it is aligned with them.
func label(b *strings.Builder, x float64, text string, at float64) {
	anchor := "middle"
	switch at {
	case 0:
		anchor = "start"
	case 1:
		anchor = "end"
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, x, chartHeight-8, anchor, template.HTMLEscapeString(text))
}

func chart(name, content string) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %g %g" role="img" aria-label="%s">%s</svg>`,
		chartWidth, chartHeight, template.HTMLEscapeString(name), content)) //nolint:gosec // numbers and escaped text
}

// overSteps draws the mean reward over the policy's steps.
func overSteps(steps []Group) template.HTML {
	low, high := 0.0, 1.0
	for _, g := range steps {
		low, high = min(low, g.Reward), max(high, g.Reward)
	}
	points := make([]point, len(steps))
	for i, g := range steps {
		points[i] = point{
			x: float64(i) / float64(max(len(steps)-1, 1)), y: (g.Reward - low) / (high - low),
			title: fmt.Sprintf("step %s: reward %s, %s flagged, %d responses", g.Name, decimals(g.Reward), percent(g.Flagged), g.Responses),
		}
	}
	return curve(fmt.Sprintf("Mean reward over the steps, from %s to %s", number(low), number(high)), points,
		"step "+steps[0].Name, "step "+steps[len(steps)-1].Name, false)
}

// calibrationCurve draws the share of violations over the violation.
func calibrationCurve(c Calibration) template.HTML {
	var points []point
	for _, b := range c.Bins {
		if b.Responses > 0 && !math.IsNaN(b.Violations) {
			title := fmt.Sprintf("violation %s: %s of %d labeled a violation", decimals(b.Violation), percent(b.Violations), b.Responses)
			points = append(points, point{b.Violation, b.Violations, title})
		}
	}
	return curve("Share of labeled violations over the violation", points, "violation 0", "1", true)
}
