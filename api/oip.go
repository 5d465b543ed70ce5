package api

import (
	"net/http"
	"slices"

	"github.com/assay-ai/assay/rewardmodel"
)

// openInference adds the Open Inference Protocol, version 2, over HTTP, as
// KServe and Triton speak it, with the repository calls and the binary tensors
// of Triton. It also takes what NeMo-Aligner sends: the input sentences, the
// output rewards.
func (s *Server) openInference(a adapters) {
	a.get("/v2", "Open Inference Protocol: the server", oipFailure, s.oipServer)
	a.get("/v2/health/live", "Open Inference Protocol: the process answers", oipFailure, s.oipLive)
	a.get("/v2/health/ready", "Open Inference Protocol: it can score", oipFailure, s.oipReady)
	for _, model := range []string{"/v2/models/{model}", "/v2/models/{model}/versions/{version}"} {
		a.get(model, "Open Inference Protocol: inputs and outputs of the model", oipFailure, s.needs(ScopeScore, s.timely(s.oipModel)))
		a.get(model+"/config", "Triton: the configuration of the model", oipFailure, s.needs(ScopeScore, s.timely(s.oipConfig)))
		a.get(model+"/ready", "Open Inference Protocol: the model can score", oipFailure, s.oipModelReady)
		a.post(model+"/infer", "Open Inference Protocol: rewards as tensors, JSON or binary", oipFailure, s.infer)
	}
	a.post("/v2/repository/index", "Triton: the models that serve", oipFailure, s.oipIndex)
	a.post("/v2/repository/models/{model}/load", "Triton: make a model version ready", oipFailure, s.oipLoad)
	a.post("/v2/repository/models/{model}/unload", "Triton: refused for what serves", oipFailure, s.oipUnload)
}

// oipFailure is {"error"}.
func oipFailure(f failure) (int, any) { return f.status, map[string]string{"error": f.text()} }

func (s *Server) oipServer(w http.ResponseWriter, r *http.Request) error {
	return s.writeJSON(w, r, http.StatusOK, map[string]any{
		"name": ownName, "version": "2", "extensions": []string{"binary_tensor_data", "model_repository"},
	})
}

func (s *Server) oipLive(w http.ResponseWriter, r *http.Request) error {
	return s.writeJSON(w, r, http.StatusOK, map[string]bool{"live": true})
}

func (s *Server) oipReady(w http.ResponseWriter, r *http.Request) error {
	if err := s.readiness(r.Context()); err != nil {
		return err
	}
	return s.writeJSON(w, r, http.StatusOK, map[string]bool{"ready": true})
}

// oipVersion is the version that a path pins, "" without one. A model's name is
// any, unless it is that of a version that serves.
func (s *Server) oipVersion(r *http.Request) (name, version string, err error) {
	if name, err = pathValue(r, "model"); err != nil {
		return "", "", err
	}
	if version, err = pathValue(r, "version"); err != nil {
		return "", "", err
	}
	if version == "" {
		version = s.pin(r.Context(), name)
	}
	return name, version, nil
}

// oipFind returns the model of a path, which is the current one without a pin.
func (s *Server) oipFind(r *http.Request) (name string, serving Model, err error) {
	name, version, err := s.oipVersion(r)
	if err != nil {
		return "", Model{}, err
	}
	known, err := s.parts.Models.Models(r.Context())
	switch {
	case err != nil:
		return "", Model{}, err
	case len(known) == 0:
		return "", Model{}, ErrNotReady
	case version == "":
		return name, known[0], nil
	}
	if m, ok := (catalog{serving: known}).find(version); ok {
		return name, m, nil
	}
	return "", Model{}, errNotFound("version %.100q of model %.100q is not loaded", version, name)
}

func (s *Server) oipModelReady(w http.ResponseWriter, r *http.Request) error {
	if err := s.readiness(r.Context()); err != nil {
		return err
	}
	name, _, err := s.oipFind(r)
	if err != nil {
		return err
	}
	return s.writeJSON(w, r, http.StatusOK, map[string]any{"name": name, "ready": true})
}

// tensorInfo describes an input or output of any number of responses.
type tensorInfo struct {
	Name     string `json:"name"`
	Datatype string `json:"datatype"`
	Shape    []int  `json:"shape"`
}

func (s *Server) oipModel(w http.ResponseWriter, r *http.Request) error {
	name, serving, err := s.oipFind(r)
	if err != nil {
		return err
	}
	anyNumber := []int{-1}
	outputs := make([]tensorInfo, len(oipOutputs))
	for i, o := range oipOutputs {
		outputs[i] = tensorInfo{o.name, o.datatype, anyNumber}
	}
	return s.writeJSON(w, r, http.StatusOK, map[string]any{
		"name": name, "versions": []string{serving.Version}, "platform": ownName,
		"inputs":  []tensorInfo{{"text", typeBytes, anyNumber}, {"prompt", typeBytes, anyNumber}},
		"outputs": outputs,
	})
}

// oipConfig is what Triton's and PyTriton's clients read before they send a
// batch: every input and output by name, NeMo-Aligner's among them. A batch has
// one text in each row.
func (s *Server) oipConfig(w http.ResponseWriter, r *http.Request) error {
	name, _, err := s.oipFind(r)
	if err != nil {
		return err
	}
	type tensor struct {
		Name     string `json:"name"`
		DataType string `json:"data_type"`
		Dims     []int  `json:"dims"`
		Optional bool   `json:"optional,omitempty"`
	}
	var inputs, outputs []tensor
	for _, input := range []string{"text", "sentences", "prompt"} {
		inputs = append(inputs, tensor{input, "TYPE_STRING", []int{1}, true})
	}
	for _, o := range slices.Concat(oipOutputs, nemoOutputs) {
		outputs = append(outputs, tensor{o.name, tritonType(o.datatype), []int{1}, false})
	}
	return s.writeJSON(w, r, http.StatusOK, map[string]any{
		"name": name, "platform": ownName, "backend": ownName, "max_batch_size": s.maxResponses(), "input": inputs, "output": outputs,
	})
}

// tritonType is a datatype as Triton's configurations write it.
func tritonType(datatype string) string {
	if datatype == typeBytes {
		return "TYPE_STRING"
	}
	return "TYPE_" + datatype
}

func (s *Server) oipIndex(w http.ResponseWriter, r *http.Request) error {
	serving, err := s.parts.Models.Models(r.Context())
	if err != nil {
		return err
	}
	type entry struct {
		Name    string `json:"name"`
		Version string `json:"version"`
		State   string `json:"state"`
		Reason  string `json:"reason"`
	}
	index := make([]entry, len(serving))
	for i, m := range serving {
		index[i] = entry{ownName, m.Version, "READY", ""}
	}
	return s.writeJSON(w, r, http.StatusOK, index)
}

// oipLoad makes a model ready. Any name stands for the model that serves; the
// version of another is loaded beside it, as for a request that pins it.
func (s *Server) oipLoad(w http.ResponseWriter, r *http.Request) error {
	name, err := pathValue(r, "model")
	if err != nil {
		return err
	}
	serving, err := s.parts.Models.Models(r.Context())
	if err != nil {
		return err
	}
	version := name
	if name == ownName || len(serving) > 0 && name == serving[0].Name {
		version = ""
	}
	nothing := rewardmodel.Request{Model: version, Responses: []rewardmodel.Item{response("")}}
	if _, err := s.rate(r, nothing); err != nil {
		return err
	}
	return s.writeJSON(w, r, http.StatusOK, map[string]any{})
}

// oipUnload refuses to unload what serves: versions that are not used make room
// for others by themselves.
func (s *Server) oipUnload(w http.ResponseWriter, r *http.Request) error {
	name, err := pathValue(r, "model")
	if err != nil {
		return err
	}
	serving, err := s.parts.Models.Models(r.Context())
	if err != nil {
		return err
	}
	_, loaded := (catalog{serving: serving}).find(name)
	if loaded || name == ownName || len(serving) > 0 && name == serving[0].Name {
		return errInvalid("", "model %.100q serves and stays loaded; versions that nobody asks for are unloaded when others need the room", name)
	}
	return s.writeJSON(w, r, http.StatusOK, map[string]any{})
}
