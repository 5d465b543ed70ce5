package api

import (
	"context"
	"net/http"
	"slices"
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
		"name": ownName, "version": oipGeneration, "extensions": []string{"binary_tensor_data", "model_repository"},
	})
}

func (s *Server) oipLive(w http.ResponseWriter, r *http.Request) error {
	return s.writeHealth(w, r, http.StatusOK, map[string]bool{"live": true})
}

func (s *Server) oipReady(w http.ResponseWriter, r *http.Request) error {
	if err := s.readiness(); err != nil {
		return err
	}
	return s.writeHealth(w, r, http.StatusOK, map[string]bool{"ready": true})
}

// oipPath is the model of a path, and the version that it pins, "" without one.
func (s *Server) oipPath(r *http.Request) (name, version string, err error) {
	if name, err = pathValue(r, "model"); err != nil {
		return "", "", err
	}
	if version, err = pathValue(r, "version"); err != nil {
		return "", "", err
	}
	return name, s.oipVersion(r.Context(), name, version), nil
}

// oipFind returns the model of a path, which is the current one without a pin.
func (s *Server) oipFind(r *http.Request) (name string, serving Model, err error) {
	name, version, err := s.oipPath(r)
	if err == nil {
		serving, err = s.serving(r.Context(), name, version)
	}
	return name, serving, err
}

func (s *Server) oipModelReady(w http.ResponseWriter, r *http.Request) error {
	if err := s.readiness(); err != nil {
		return err
	}
	name, _, err := s.oipFind(r)
	if err != nil {
		return err
	}
	return s.writeHealth(w, r, http.StatusOK, map[string]any{"name": name, "ready": true})
}

func (s *Server) oipModel(w http.ResponseWriter, r *http.Request) error {
	name, serving, err := s.oipFind(r)
	if err != nil {
		return err
	}
	inputs, outputs := tensorsOf()
	return s.writeJSON(w, r, http.StatusOK, map[string]any{
		"name": name, "versions": []string{serving.Version}, "platform": ownName,
		"inputs": inputs, "outputs": outputs,
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
	for _, input := range configInputs {
		inputs = append(inputs, tensor{input, tritonType(typeBytes), []int{1}, true})
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
		index[i] = entry{ownName, m.Version, stateReady, ""}
	}
	return s.writeJSON(w, r, http.StatusOK, index)
}

func (s *Server) oipLoad(w http.ResponseWriter, r *http.Request) error {
	return s.oipRepository(w, r, s.load)
}

func (s *Server) oipUnload(w http.ResponseWriter, r *http.Request) error {
	return s.oipRepository(w, r, s.unload)
}

func (s *Server) oipRepository(w http.ResponseWriter, r *http.Request, do func(ctx context.Context, name string) error) error {
	name, err := pathValue(r, "model")
	if err != nil {
		return err
	}
	if err := do(r.Context(), name); err != nil {
		return err
	}
	return s.writeJSON(w, r, http.StatusOK, map[string]any{})
}
