package oip

import (
	"context"
	"net/http"
	"slices"

	"assay/api/internal/adapter"
	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/api/internal/httpjson"
)

// Routes returns the endpoints of the protocol over HTTP, including the
// repository calls and the binary tensors of Triton. ready returns why the
// service cannot score now, nil if it can.
func Routes(backend adapter.Backend, ready func() error) []httpjson.Route {
	h := handlers{service{backend, ready}}
	routes := []httpjson.Route{
		get("/v2", "Open Inference Protocol: the server", httpjson.Public, h.server),
		get("/v2/health/live", "Open Inference Protocol: the process answers", httpjson.Public, h.live),
		get("/v2/health/ready", "Open Inference Protocol: it can score", httpjson.Public, h.serverReady),
	}
	for _, model := range []string{"/v2/models/{model}", "/v2/models/{model}/versions/{version}"} {
		routes = append(routes,
			get(model, "Open Inference Protocol: inputs and outputs of the model", httpjson.Read, h.model),
			get(model+"/config", "Triton: the configuration of the model", httpjson.Read, h.config),
			get(model+"/ready", "Open Inference Protocol: the model can score", httpjson.Public, h.modelReady),
			post(model+"/infer", "Open Inference Protocol: rewards as tensors, JSON or binary", h.infer),
		)
	}
	return append(routes,
		post("/v2/repository/index", "Triton: the models that serve", h.index),
		post("/v2/repository/models/{model}/load", "Triton: make a model version ready", h.loadModel),
		post("/v2/repository/models/{model}/unload", "Triton: refused for what serves", h.unloadModel),
	)
}

func get(pattern, summary string, access httpjson.Access, h httpjson.Handler) httpjson.Route {
	return httpjson.Get(pattern, summary, access, encodeFailure, h)
}

func post(pattern, summary string, h httpjson.Handler) httpjson.Route {
	return httpjson.Post(pattern, summary, encodeFailure, h)
}

// encodeFailure is {"error"}.
func encodeFailure(f failure.Failure) (int, any) {
	return f.Status(), map[string]string{"error": f.Text()}
}

// handlers serve the protocol over HTTP.
type handlers struct{ service }

func (h handlers) server(w http.ResponseWriter, r *http.Request) error {
	return httpjson.WriteJSON(w, r, http.StatusOK, map[string]any{
		"name": platform, "version": protocolVersion, "extensions": []string{"binary_tensor_data", "model_repository"},
	})
}

func (h handlers) live(w http.ResponseWriter, r *http.Request) error {
	return httpjson.WriteProbe(w, r, http.StatusOK, map[string]bool{"live": true})
}

func (h handlers) serverReady(w http.ResponseWriter, r *http.Request) error {
	if err := h.ready(); err != nil {
		return err
	}
	return httpjson.WriteProbe(w, r, http.StatusOK, map[string]bool{"ready": true})
}

// modelOf returns the model of the path and the version that it pins, "" without
// one.
func (h handlers) modelOf(r *http.Request) (name, version string, err error) {
	if name, err = httpjson.PathValue(r, "model"); err != nil {
		return "", "", err
	}
	if version, err = httpjson.PathValue(r, "version"); err != nil {
		return "", "", err
	}
	return name, h.pin(r.Context(), name, version), nil
}

// find returns the model of the path: the current one without a pin.
func (h handlers) find(r *http.Request) (name string, serving adapter.Model, err error) {
	name, version, err := h.modelOf(r)
	if err == nil {
		serving, err = h.serving(r.Context(), name, version)
	}
	return name, serving, err
}

func (h handlers) modelReady(w http.ResponseWriter, r *http.Request) error {
	if err := h.ready(); err != nil {
		return err
	}
	name, _, err := h.find(r)
	if err != nil {
		return err
	}
	return httpjson.WriteProbe(w, r, http.StatusOK, map[string]any{"name": name, "ready": true})
}

func (h handlers) model(w http.ResponseWriter, r *http.Request) error {
	name, serving, err := h.find(r)
	if err != nil {
		return err
	}
	inputs, outputs := ioMetadata(serving)
	return httpjson.WriteJSON(w, r, http.StatusOK, map[string]any{
		"name": name, "versions": []string{serving.Version}, "platform": platform,
		"inputs": inputs, "outputs": outputs,
	})
}

// config is what the clients of Triton and PyTriton read before they send a
// batch: every input and output by name, including NeMo-Aligner's. Each row of a
// batch is one text.
func (h handlers) config(w http.ResponseWriter, r *http.Request) error {
	name, serving, err := h.find(r)
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
	for _, o := range slices.Concat(defaultOutputs, nemoOutputs, aspectOutputs(serving)) {
		outputs = append(outputs, tensor{o.name, tritonType(o.datatype), []int{1}, false})
	}
	return httpjson.WriteJSON(w, r, http.StatusOK, map[string]any{
		"name": name, "platform": platform, "backend": platform, "max_batch_size": exchange.Of(r).Limits().MaxResponses(), "input": inputs, "output": outputs,
	})
}

// tritonType returns the name of a datatype in Triton's configurations.
func tritonType(datatype string) string {
	if datatype == typeBytes {
		return "TYPE_STRING"
	}
	return "TYPE_" + datatype
}

func (h handlers) index(w http.ResponseWriter, r *http.Request) error {
	serving, err := h.backend.Models(r.Context())
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
		index[i] = entry{platform, m.Version, stateReady, ""}
	}
	return httpjson.WriteJSON(w, r, http.StatusOK, index)
}

func (h handlers) loadModel(w http.ResponseWriter, r *http.Request) error {
	return repositoryCall(w, r, h.load)
}

func (h handlers) unloadModel(w http.ResponseWriter, r *http.Request) error {
	return repositoryCall(w, r, h.unload)
}

func repositoryCall(w http.ResponseWriter, r *http.Request, do func(ctx context.Context, name string) error) error {
	name, err := httpjson.PathValue(r, "model")
	if err != nil {
		return err
	}
	if err := do(r.Context(), name); err != nil {
		return err
	}
	return httpjson.WriteJSON(w, r, http.StatusOK, map[string]any{})
}
