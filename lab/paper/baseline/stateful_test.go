package baseline

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"testing"

	"assay/rewardmodel/train"
)

// featureConfig suits plain gradient descent on features.
func featureConfig(m train.Method) train.Config {
	return train.Config{Method: m, Epochs: 4, Batch: 16, Rate: 0.02, Seed: 1, Threshold: m.Threshold()}
}

// auroc is the probability that a violating bag scores above a compliant one.
func auroc(d *train.Data, scores []train.Score) float64 {
	var above, pairs float64
	for i, a := range d.Bags {
		for k, b := range d.Bags {
			if !a.Violation || b.Violation {
				continue
			}
			pairs++
			switch {
			case scores[i].Bag > scores[k].Bag:
				above++
			case scores[i].Bag == scores[k].Bag:
				above += 0.5
			}
		}
	}
	return above / pairs
}

func stateful(t *testing.T) []train.Stateful {
	var out []train.Stateful
	for _, name := range Methods() {
		m, err := New(name)
		if err != nil {
			t.Fatal(err)
		}
		if m, ok := m.(train.Stateful); ok {
			out = append(out, m)
		}
	}
	return out
}

// renew returns an untrained method with the same settings.
func renew(t *testing.T, m train.Method) train.Stateful {
	untrained, err := New(m.Name())
	if err != nil {
		t.Fatal(err)
	}
	return untrained.(train.Stateful)
}

// TestStatefulMethodsResume stops each method in its third epoch and resumes it: the method's parameters, the network's
// features and the scores equal those of an uninterrupted run.
func TestStatefulMethodsResume(t *testing.T) {
	data, _ := syntheticBags(40, 3)
	for _, m := range stateful(t) {
		uninterrupted := newEmbedding()
		want, err := train.Run(t.Context(), uninterrupted, data, featureConfig(m))
		if err != nil {
			t.Fatalf("%s: %v", m.Name(), err)
		}
		wantOwn, _ := m.MarshalBinary()

		ctx, cancel := context.WithCancel(t.Context())
		first, cfg := newEmbedding(), featureConfig(renew(t, m))
		first.stopAt, first.cancel = uninterrupted.steps*5/8, cancel
		cfg.State = filepath.Join(t.TempDir(), "state")
		if _, err := train.Run(ctx, first, data, cfg); !errors.Is(err, context.Canceled) {
			t.Fatalf("%s: stopped run: %v", m.Name(), err)
		}
		again := renew(t, m)
		cfg.Method = again
		second := newEmbedding()
		got, err := train.Run(t.Context(), second, data, cfg)
		if err != nil {
			t.Fatalf("%s: %v", m.Name(), err)
		}
		own, _ := again.MarshalBinary()
		if got.Resumed != 2 || !bytes.Equal(own, wantOwn) || !reflect.DeepEqual(second.Embed, uninterrupted.Embed) ||
			!reflect.DeepEqual(got.Scores, want.Scores) || got.Threshold != want.Threshold {
			t.Errorf("%s: the run that resumed after %d epochs differs from the uninterrupted one", m.Name(), got.Resumed)
		}
	}
}

func TestStatefulMethodsRejectUnusableState(t *testing.T) {
	data, _ := syntheticBags(4, 2)
	for _, m := range stateful(t) {
		if _, err := train.ScoreBags(t.Context(), newEmbedding(), 0, data, m); !errors.Is(err, ErrUntrained) {
			t.Errorf("%s untrained: %v", m.Name(), err)
		}
		for _, damaged := range [][]byte{nil, []byte("abc"), bytes.Repeat([]byte{1}, 8*1000+3)} {
			if err := m.UnmarshalBinary(damaged); err == nil {
				t.Errorf("%s: a damaged state of %d bytes was loaded", m.Name(), len(damaged))
			}
		}
	}
}
