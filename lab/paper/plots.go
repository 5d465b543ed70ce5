package paper

import (
	"bytes"
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// kind is the content of a plot.
type kind string

const (
	kindSweep    kind = "sweep"    // a metric against sigma_micro
	kindAblation kind = "ablation" // settings of BFGPU
	kindLoss     kind = "loss"     // loss against steps
	kindScores   kind = "scores"   // histograms of bag scores, with T
)

// plotFile is the SVG file of a plot of the runs of a recipe.
type plotFile struct {
	recipe recipe
	kind   kind
	title  string
	file   string
	svg    []byte
}

// drawPlots draws the plots of all groups.
func drawPlots(gs []group, index published) ([]plotFile, error) {
	var out []plotFile
	for _, g := range gs {
		if g.backbone == "" {
			continue // LLM judges: nothing was trained
		}
		drawn, err := g.drawPlots(index)
		if err != nil {
			return nil, err
		}
		out = append(out, drawn...)
	}
	return out, nil
}

func (g group) drawPlots(index published) ([]plotFile, error) {
	var out []plotFile
	keep := func(k kind, what string, f *figure, err error, height vg.Length, side vg.Length) error {
		if err != nil || f == nil {
			return err
		}
		svg, err := f.svg(vg.Points(600), height, side)
		if err != nil {
			return err
		}
		out = append(out, plotFile{g.recipe, k, f.Title.Text, fmt.Sprintf("plots/%s-%s.svg", g.slug(), what), svg})
		return nil
	}
	const side, height = vg.Length(190), vg.Length(300)
	if len(g.sigmas) > 1 && len(g.defaults()) > 0 {
		for _, metric := range []string{avgAcc, f1Compliant} {
			f, err := g.sweepFigure(index, metric)
			if err := keep(kindSweep, metric, f, err, height, side); err != nil {
				return nil, err
			}
		}
	}
	f, err := g.lossFigure()
	if err := keep(kindLoss, "loss", f, err, height, side); err != nil {
		return nil, err
	}
	for _, sigma := range g.sigmas {
		f, err := g.ablationFigure(sigma)
		tall := vg.Points(70 + 17*float64(len(g.ablationBars(sigma))))
		if err := keep(kindAblation, fmt.Sprintf("settings-sigma%d", sigma), f, err, tall, 0); err != nil {
			return nil, err
		}
	}
	for _, s := range g.of(BFGPU) {
		if s.changed != "" {
			continue
		}
		for _, split := range []string{"train", "test"} {
			f, err := g.scoresFigure(s, g.sigmas[0], split)
			if err := keep(kindScores, "scores-"+split, f, err, vg.Points(220), 110); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// figure is a plot with its legend to the right.
type figure struct {
	*plot.Plot
	legend plot.Legend
	rows   int // of the legend
}

func newFigure(title, x, y string) *figure {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = vg.Points(6)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{225}, color.Gray{240}
	p.Add(grid)
	f := &figure{Plot: p, legend: plot.NewLegend()}
	f.legend.Top, f.legend.Left = true, true
	f.legend.YPosition = draw.PosCenter
	f.legend.TextStyle.Font.Size = vg.Points(9)
	f.legend.Padding = vg.Points(2)
	return f
}

func (f *figure) name(text string, thumbs ...plot.Thumbnailer) {
	f.legend.Add(text, thumbs...)
	f.rows++
}

// svg draws the figure at a size in points; side is the width of the legend.
func (f *figure) svg(width, height, side vg.Length) ([]byte, error) {
	canvas := vgsvg.New(width, height)
	f.drawOn(canvas, side)
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("paper: plot: %w", err)
	}
	return out.Bytes(), nil
}

func (f *figure) drawOn(canvas vg.CanvasSizer, side vg.Length) {
	whole := draw.New(canvas)
	whole.SetColor(color.White)
	whole.Fill(whole.Rectangle.Path())
	f.Draw(draw.Crop(whole, 4, -side-4, 4, -4))
	if side > 0 {
		f.legend.Draw(draw.Crop(whole, whole.Max.X-side, 0, 0, -vg.Points(24)))
	}
}

// lineColor is the color of a line by its position in the plot (the color-blind safe palette of Okabe and Ito).
func lineColor(i int) color.Color {
	palette := []color.RGBA{
		{0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x72, 0xb2, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
		{0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x6b, 0x6b, 0x6b, 0xff}, {0x00, 0x00, 0x00, 0xff},
	}
	return palette[i%len(palette)]
}

func dashed() []vg.Length { return []vg.Length{vg.Points(4), vg.Points(3)} }
