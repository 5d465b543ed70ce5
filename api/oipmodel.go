package api

import (
	"context"
	"slices"

	"assay/rewardmodel"
)

// What the Open Inference Protocol asks of models, the same over HTTP and gRPC.

const (
	oipGeneration = "2"     // of the protocol
	stateReady    = "READY" // of a model that serves
)

// configInputs are the inputs that a client can send, NeMo-Aligner's among them.
var configInputs = []string{"text", "sentences", "prompt"}

// oipVersion is the version that a request pins, "" without one. A model's name
// is any, unless it is that of a version that serves.
func (s *Server) oipVersion(ctx context.Context, model, version string) string {
	if version != "" {
		return version
	}
	return s.pin(ctx, name(model))
}

// serving returns the model of a version, which is the current one for "".
func (s *Server) serving(ctx context.Context, name, version string) (Model, error) {
	known, err := s.parts.Models.Models(ctx)
	switch {
	case err != nil:
		return Model{}, err
	case len(known) == 0:
		return Model{}, ErrNotReady
	case version == "":
		return known[0], nil
	}
	if m, ok := (catalog{serving: known}).find(version); ok {
		return m, nil
	}
	return Model{}, errNotFound("version %.100q of model %.100q is not loaded", version, name)
}

// tensorInfo describes an input or output of any number of responses.
type tensorInfo struct {
	Name     string  `json:"name"`
	Datatype string  `json:"datatype"`
	Shape    []int64 `json:"shape"`
}

// tensorsOf are the inputs and outputs that every client should know.
func tensorsOf() (inputs, outputs []tensorInfo) {
	anyNumber := []int64{-1}
	for _, name := range []string{"text", "prompt"} {
		inputs = append(inputs, tensorInfo{name, typeBytes, anyNumber})
	}
	for _, o := range oipOutputs {
		outputs = append(outputs, tensorInfo{o.name, o.datatype, anyNumber})
	}
	return inputs, outputs
}

// load makes a model ready. Any name stands for the model that serves; the
// version of another is loaded beside it, as for a request that pins it.
func (s *Server) load(ctx context.Context, name string) error {
	serving, err := s.parts.Models.Models(ctx)
	if err != nil {
		return err
	}
	version := name
	if name == ownName || len(serving) > 0 && name == serving[0].Name {
		version = ""
	}
	_, err = s.rate(ctx, rewardmodel.Request{Model: version, Responses: []rewardmodel.Item{response("")}})
	return err
}

// unload refuses to unload what serves: versions that are not used make room
// for others by themselves.
func (s *Server) unload(ctx context.Context, name string) error {
	serving, err := s.parts.Models.Models(ctx)
	if err != nil {
		return err
	}
	if name == ownName || slices.ContainsFunc(serving, func(m Model) bool { return m.Version == name }) || len(serving) > 0 && name == serving[0].Name {
		return errInvalid("", "model %.100q serves and stays loaded; versions that nobody asks for are unloaded when others need the room", name)
	}
	return nil
}
