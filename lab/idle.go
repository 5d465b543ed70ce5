package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"assay/lab/bench"
	"assay/lab/load"
	"assay/lab/stats"
	"assay/rewardmodel"
	"assay/rewardmodel/encoder"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

// bareModel is the model in this process, without a service around it.
type bareModel struct {
	*localmodel.Opened
	runtime *encoder.Runtime
	encoder *encoder.Model
}

func openBare(f localmodel.Flags) (*bareModel, error) {
	opened, err := f.Config().Open()
	if err != nil {
		return nil, err
	}
	m := &bareModel{Opened: opened}
	if m.runtime, err = f.Compute().Runtime(); err != nil {
		return nil, errors.Join(cli.Usage(err), m.close())
	}
	if m.encoder, err = m.runtime.Load(opened.Checkpoint, encoder.Precision(f.Precision)); err != nil {
		return nil, errors.Join(fmt.Errorf("--model %s: %w", opened.Dir, err), m.close())
	}
	return m, nil
}

func (m *bareModel) close() error {
	var err error
	if m.encoder != nil {
		err = m.encoder.Close()
	}
	if m.runtime != nil {
		m.runtime.Close()
	}
	return errors.Join(err, m.Opened.Close())
}

// warmUps is how many responses of a round are not counted.
const warmUps = 5

// idle requests one short response at a time, and computes its forward pass in this process after each, so that both
// are measured while the machine is equally busy.
func (c *latencyCmd) idle(ctx context.Context, r *latencyRound, service *bench.Service, bare *bareModel, work *bench.Uniform) error {
	responses, err := work.Take(ctx, warmUps+c.Idle, 1)
	if err != nil {
		return err
	}
	bodies, err := bench.Requests(bench.Items(textsOf(responses)), 1)
	if err != nil {
		return err
	}
	to := load.NewHTTP(service.URL+bench.ScorePath, 1)
	defer to.Close()
	var served, forward []float64
	timed := func(do func() error) (float64, error) {
		if err := load.WaitUntil(ctx, time.Now().Add(c.Pause)); err != nil {
			return 0, err
		}
		began := time.Now()
		err := do()
		return stats.Milliseconds(time.Since(began)), err
	}
	for i, body := range bodies {
		request, err := timed(func() error {
			_, err := to.Send(ctx, body)
			return err
		})
		if err != nil {
			return fmt.Errorf("idle service: %w", err)
		}
		ids := bare.Tokenizer.Frame(bare.Tokenizer.IDs(responses[i].Utterances[0]))
		pass, err := timed(func() error {
			_, err := bare.encoder.Margins([]rewardmodel.Sequence{{IDs: ids}})
			return err
		})
		if err != nil {
			return err
		}
		if i >= warmUps {
			served, forward = append(served, request), append(forward, pass)
		}
	}
	r.idle, r.forward = stats.Median(served), stats.Median(forward)
	return nil
}
