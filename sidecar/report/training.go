package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"slices"
)

// Stage is a stage of the epochs of a training run, such as that of the pseudo labels.
type Stage struct {
	Name   string
	Points []Loss
}

// Loss is the mean loss of a stage of an epoch up to a step.
type Loss struct {
	Epoch, Step, Steps int // Steps of the whole run
	Loss               float64
}

// ReadTraining reads the progress of a training run, as assay train --progress json writes it.
func ReadTraining(r io.Reader) ([]Stage, error) {
	var out []Stage
	err := eachLine(r, func(text []byte) error {
		var l struct {
			Loss
			Stage string
		}
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		if l.Stage == "" || l.Steps < 1 {
			return errors.New("has no stage or steps; give the output of assay train --progress json")
		}
		at := slices.IndexFunc(out, func(s Stage) bool { return s.Name == l.Stage })
		if at < 0 {
			at = len(out)
			out = append(out, Stage{Name: l.Stage})
		}
		out[at].Points = append(out[at].Points, l.Loss)
		return nil
	})
	if err == nil && len(out) == 0 {
		err = errors.New("has no progress")
	}
	return out, err
}

// Epochs are the last points of the epochs.
func (s Stage) Epochs() (out []Loss) {
	for i, p := range s.Points {
		if i == len(s.Points)-1 || s.Points[i+1].Epoch != p.Epoch {
			out = append(out, p)
		}
	}
	return out
}

// lossCurve draws the loss of a stage over the steps of the run.
func lossCurve(s Stage) template.HTML {
	high := 0.0
	for _, p := range s.Points {
		high = max(high, p.Loss)
	}
	points := make([]point, len(s.Points))
	for i, p := range s.Points {
		points[i] = point{
			x: float64(p.Step) / float64(p.Steps), y: p.Loss / max(high, 1e-12),
			title: fmt.Sprintf("epoch %d, step %d: %s", p.Epoch, p.Step, decimals(p.Loss)),
		}
	}
	return curve(fmt.Sprintf("Mean loss of the stage %s, from 0 to %s", s.Name, number(high)), points,
		"step 0", fmt.Sprintf("%d", s.Points[0].Steps), false)
}
