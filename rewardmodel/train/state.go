package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"assay/internal/durable"
)

// runState is the content of Config.State: state.json has the number of complete epochs, which determines the file of
// the weights. It is replaced atomically after the weights are complete, so that file is always complete.
type runState struct {
	Epochs   int    `json:"epochs"` // epochs done
	Settings string `json:"settings"`
	Method   []byte `json:"method,omitempty"` // the method's own learned parameters

	dir     string
	resumed int
}

func (s *runState) weights() string {
	return filepath.Join(s.dir, fmt.Sprintf("epoch-%d.safetensors", s.Epochs))
}

func openState(cfg Config) (*runState, error) {
	method := cfg.Method.Name()
	if _, ok := cfg.Method.(Stateful); !ok { // whose fields have learned values
		method += fmt.Sprintf(" %+v", cfg.Method)
	}
	s := &runState{dir: cfg.State, Settings: fmt.Sprintf("%s epochs=%d batch=%d rate=%g..%g seed=%d fold=%g %s",
		method, cfg.Epochs, cfg.Batch, cfg.Rate, cfg.RateMin, cfg.Seed, cfg.Fold, cfg.Identity)}
	if cfg.Warmup > 0 {
		s.Settings += fmt.Sprintf(" warmup=%g", cfg.Warmup)
	}
	if cfg.HideContext > 0 {
		s.Settings += fmt.Sprintf(" hide=%g", cfg.HideContext)
	}
	if cfg.LambdaComparison != DefaultLambdaComparison {
		s.Settings += fmt.Sprintf(" lambda-comparison=%g", cfg.LambdaComparison)
	}
	if s.dir == "" {
		return s, nil
	}
	data, err := os.ReadFile(filepath.Join(s.dir, "state.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return s, os.MkdirAll(s.dir, 0o755)
	}
	if err != nil {
		return nil, fmt.Errorf("train: state: %w", err)
	}
	var old runState
	if err := json.Unmarshal(data, &old); err != nil {
		return nil, fmt.Errorf("train: %s/state.json: %w; remove the directory to start from scratch", s.dir, err)
	}
	if old.Settings != s.Settings {
		return nil, fmt.Errorf("train: %s belongs to another run (%s); repeat its settings, or remove the directory to start from scratch", s.dir, old.Settings)
	}
	s.Epochs, s.resumed, s.Method = old.Epochs, old.Epochs, old.Method
	return s, nil
}

// load restores learner and method from the state of an earlier run, if any.
func (s *runState) load(learner Learner, m Method) error {
	if s.Epochs == 0 {
		return nil
	}
	if err := learner.LoadState(s.weights()); err != nil {
		return fmt.Errorf("train: resume from %s: %w", s.dir, err)
	}
	if m, ok := m.(Stateful); ok {
		if err := m.UnmarshalBinary(s.Method); err != nil {
			return fmt.Errorf("train: resume from %s: %w", s.dir, err)
		}
	}
	return nil
}

func (s *runState) save(learner Learner, m Method, epochs int) error {
	previous := s.weights()
	s.Epochs = epochs
	if s.dir == "" {
		return nil
	}
	if err := learner.SaveState(s.weights()); err != nil {
		return fmt.Errorf("train: save epoch %d: %w", epochs, err)
	}
	if m, ok := m.(Stateful); ok {
		own, err := m.MarshalBinary()
		if err != nil {
			return fmt.Errorf("train: save epoch %d: %w", epochs, err)
		}
		s.Method = own
	}
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(s.dir, "state.json"), data, 0o644); err != nil {
		return fmt.Errorf("train: state: %w", err)
	}
	if err := os.Remove(previous); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("train: state: %w", err)
	}
	return nil
}
