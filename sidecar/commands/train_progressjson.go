package commands

import (
	"encoding/json"
	"io"
	"math"
	"time"

	"assay/rewardmodel/retrain"
	"assay/rewardmodel/train"
)

// progressLines writes the progress of a training for another program: an object a line, at most one a second, and one
// at the end of each stage.
type progressLines struct {
	out      io.Writer
	began    time.Time // when the first step of this process ended
	first    int       // that step
	last     train.Progress
	written  train.Progress
	reported time.Time
}

func (p *progressLines) tell(now train.Progress) {
	at := time.Now()
	if p.began.IsZero() {
		p.began, p.first = at, now.Step
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
	// What lies between the steps (scoring, saving) counts with them.
	if done := p.last.Step - p.first; done > 0 {
		left := at.Sub(p.began).Seconds() / float64(done) * float64(p.last.Steps-p.last.Step)
		line.SecondsLeft = math.Round(left*10) / 10
	}
	_ = json.NewEncoder(p.out).Encode(line) // the reader may have left: the training run continues
}
