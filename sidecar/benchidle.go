package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"assay/bench"
	"assay/rewardmodel/encoder"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

// bareModel is the model without a service around it.
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

// warmUps are the responses of a round that are not counted.
const warmUps = 5

// idle asks for one short response at a time, and computes its forward pass here after each, so that a slow moment of
// the machine is shared.
func (c *benchLatencyCmd) idle(ctx context.Context, r *latencyRound, service *bench.Service, bare *bareModel, work *bench.Uniform) error {
	responses, err := work.Take(ctx, warmUps+c.Idle, 1)
	if err != nil {
		return err
	}
	bodies, err := requests(items(textsOf(responses)), 1)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	var served, forward []float64
	took := func(do func() error) (float64, error) {
		if err := sleepUntil(ctx, time.Now().Add(c.Pause)); err != nil {
			return 0, err
		}
		began := time.Now()
		err := do()
		return 1000 * time.Since(began).Seconds(), err
	}
	for i, body := range bodies {
		asked, err := took(func() error { return send(ctx, client, service.URL+"/v1/score", body) })
		if err != nil {
			return fmt.Errorf("idle service: %w", err)
		}
		ids := bare.Tokenizer.Frame(bare.Tokenizer.IDs(responses[i].Utterances[0]))
		computed, err := took(func() error {
			_, err := bare.encoder.Margins([][]int32{ids})
			return err
		})
		if err != nil {
			return err
		}
		if i >= warmUps {
			served, forward = append(served, asked), append(forward, computed)
		}
	}
	r.idle, r.forward = medianOf(served), medianOf(forward)
	return nil
}
