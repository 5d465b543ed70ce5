package commands

import (
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"github.com/schollz/progressbar/v3"

	"assay/rewardmodel/train"
	"assay/sidecar/cli"
)

// trainProgress shows a bar on a terminal, and logs the end of each stage of an epoch and, every cli.LogEvery, the steps
// in between.
type trainProgress struct {
	app    *cli.App
	log    zerolog.Logger
	bar    *progressbar.ProgressBar // nil before the first step and without a terminal
	last   train.Progress
	logged time.Time
}

func newTrainProgress(a *cli.App) *trainProgress {
	return &trainProgress{app: a, log: a.Log, logged: time.Now()}
}

func (p *trainProgress) observe(now train.Progress) {
	if p.bar == nil && cli.IsTerminal(p.app.Stderr) && !p.app.JSONLogs {
		p.bar = progressbar.NewOptions(now.Steps, progressbar.OptionSetWriter(p.app.Stderr),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30),
			progressbar.OptionSetPredictTime(true))
	}
	if p.last.Stage != "" && (now.Stage != p.last.Stage || now.Epoch != p.last.Epoch) {
		p.line(p.last, "stage done")
	}
	p.last = now
	if p.bar != nil {
		p.bar.Describe(fmt.Sprintf("epoch %d/%d %s, loss %.4f", now.Epoch, now.Epochs, now.Stage, now.Loss))
		_ = p.bar.Set(now.Step) // a display error does not fail the run
	} else if time.Since(p.logged) >= cli.LogEvery {
		p.line(now, "training")
	}
}

func (p *trainProgress) line(at train.Progress, message string) {
	p.logged = time.Now()
	p.log.Info().Int("epoch", at.Epoch).Int("epochs", at.Epochs).Str("stage", at.Stage).Int("step", at.Step).
		Int("steps", at.Steps).Float64("loss", at.Loss).Float64("lr", at.LearningRate).Msg(message)
}

// close clears the bar and logs the last stage.
func (p *trainProgress) close() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
	if p.last.Stage != "" {
		p.line(p.last, "stage done")
	}
}
