package commands

import (
	"encoding/json"
	"io"
	"math"
	"time"

	"assay/rewardmodel/retrain"
	"assay/rewardmodel/train"
)

// progressLines writes the progress of a training run as JSON Lines: at most one per second, and one at the end of each
// stage.
type progressLines struct {
	out      io.Writer
	started  time.Time // end of the first step of this process
	first    int       // that step
	last     train.Progress
	written  train.Progress
	reported time.Time
}

func (p *progressLines) observe(now train.Progress) {
	at := time.Now()
	if p.started.IsZero() {
		p.started, p.first = at, now.Step
	}
	if p.last.Stage != "" && (now.Stage != p.last.Stage || now.Epoch != p.last.Epoch) {
		p.write(at)
	}
	p.last = now
	if at.Sub(p.reported) >= time.Second {
		p.write(at)
	}
}

// close writes the last step.
func (p *progressLines) close() { p.write(time.Now()) }

func (p *progressLines) write(at time.Time) {
	if p.last == p.written {
		return
	}
	p.written, p.reported = p.last, at
	line := retrain.Progress{
		Epoch: p.last.Epoch, Epochs: p.last.Epochs, Stage: p.last.Stage, Step: p.last.Step, Steps: p.last.Steps, Loss: p.last.Loss,
	}
	// The time between the steps (scoring, saving) counts as part of them.
	if done := p.last.Step - p.first; done > 0 {
		left := at.Sub(p.started).Seconds() / float64(done) * float64(p.last.Steps-p.last.Step)
		line.SecondsLeft = math.Round(left*10) / 10
	}
	_ = json.NewEncoder(p.out).Encode(line) // a closed output does not stop the training run
}
