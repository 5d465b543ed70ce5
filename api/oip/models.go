package oip

import (
	"context"
	"slices"

	"assay/api/internal/adapter"
	"assay/api/internal/failure"
	"assay/rewardmodel"
)

// service is what HTTP and gRPC share.
type service struct {
	backend adapter.Backend
	ready   func() error
}

const (
	protocolVersion = "2"
	stateReady      = "READY" // of a model that serves
	platform        = "assay" // also a name for the model that serves
)

// configInputs are the inputs that a client can send, including NeMo-Aligner's.
var configInputs = []string{"text", "sentences", "prompt"}

// pin returns the version that a request pins, "" without one. Any model name is
// accepted; it pins nothing unless it is that of a version that serves.
func (s service) pin(ctx context.Context, model, version string) string {
	if version != "" {
		return version
	}
	return adapter.Pin(ctx, s.backend, adapter.Name(model))
}

// serving returns the model of a version, the current one for "".
func (s service) serving(ctx context.Context, name, version string) (adapter.Model, error) {
	loaded, err := s.backend.Models(ctx)
	switch {
	case err != nil:
		return adapter.Model{}, err
	case len(loaded) == 0:
		return adapter.Model{}, rewardmodel.ErrNotReady
	case version == "":
		return loaded[0], nil
	}
	if i := indexOf(loaded, version); i >= 0 {
		return loaded[i], nil
	}
	return adapter.Model{}, failure.NotFound("version %.100q of model %.100q is not loaded", version, name)
}

func indexOf(models []adapter.Model, version string) int {
	return slices.IndexFunc(models, func(m adapter.Model) bool { return m.Version == version })
}

// tensorMetadata describes an input or output for any number of responses.
type tensorMetadata struct {
	Name     string  `json:"name"`
	Datatype string  `json:"datatype"`
	Shape    []int64 `json:"shape"`
}

// ioMetadata returns the inputs and outputs of a model that every client should know.
func ioMetadata(m adapter.Model) (inputs, outputs []tensorMetadata) {
	anyNumber := []int64{-1}
	for _, name := range []string{"text", "prompt"} {
		inputs = append(inputs, tensorMetadata{name, typeBytes, anyNumber})
	}
	for _, o := range slices.Concat(defaultOutputs, aspectOutputs(m)) {
		outputs = append(outputs, tensorMetadata{o.name, o.datatype, anyNumber})
	}
	return inputs, outputs
}

// load makes a model ready by scoring an empty response. The name of the model
// that serves means its current version; any other name is a version, which is
// loaded alongside it as for a request that pins it.
func (s service) load(ctx context.Context, name string) error {
	loaded, err := s.backend.Models(ctx)
	if err != nil {
		return err
	}
	version := name
	if name == platform || len(loaded) > 0 && name == loaded[0].Name {
		version = ""
	}
	_, err = adapter.Score(ctx, s.backend, rewardmodel.Request{Model: version, Responses: []rewardmodel.Item{adapter.Response("")}, Internal: true})
	return err
}

// unload refuses to unload what serves: unused versions are evicted when others
// need the memory.
func (s service) unload(ctx context.Context, name string) error {
	loaded, err := s.backend.Models(ctx)
	if err != nil {
		return err
	}
	if name == platform || indexOf(loaded, name) >= 0 || len(loaded) > 0 && name == loaded[0].Name {
		return failure.Invalid("", "model %.100q serves and stays loaded; versions that nobody asks for are unloaded when others need the room", name)
	}
	return nil
}
