package api

import (
	"context"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
)

// Models tells which models there are, the serving one first. The list is
// empty while none is loaded.
type Models interface {
	Models(ctx context.Context) ([]Model, error)
}

// Model describes one model version.
type Model struct {
	Name    string
	Version string // never used twice for other weights
	Created time.Time
	// Threshold is the adjusted decision threshold T of the default aggregate
	// (max), in [0,1]: a response is compliant up to it.
	Threshold float64
	// Labels are the class names in the order of the checkpoint.
	Labels []string
}

// modelBody is an OpenAI model object with assay's fields beside.
type modelBody struct {
	ID        string   `json:"id"`
	Object    string   `json:"object"`
	Created   int64    `json:"created"`
	OwnedBy   string   `json:"owned_by"`
	Name      string   `json:"name"`
	Version   string   `json:"version"`
	Threshold float64  `json:"threshold"`
	Labels    []string `json:"labels"`
}

func (m Model) body() modelBody {
	return modelBody{
		ID: m.Version, Object: "model", Created: max(0, m.Created.Unix()), OwnedBy: "assay",
		Name: m.Name, Version: m.Version, Threshold: m.Threshold, Labels: append([]string{}, m.Labels...),
	}
}

func (s *Server) listModels(w http.ResponseWriter, r *http.Request) error {
	models, err := s.models.Models(r.Context())
	if err != nil {
		return err
	}
	data := make([]modelBody, len(models))
	for i, m := range models {
		data[i] = m.body()
	}
	return s.writeJSON(w, r, http.StatusOK, map[string]any{"object": "list", "data": data})
}

// showModel finds a model by its version, or by its name, which stands for the
// version of that name that serves.
func (s *Server) showModel(w http.ResponseWriter, r *http.Request) error {
	models, err := s.models.Models(r.Context())
	if err != nil {
		return err
	}
	wanted := chi.URLParam(r, "version")
	for _, same := range []func(Model) bool{
		func(m Model) bool { return m.Version == wanted },
		func(m Model) bool { return m.Name == wanted },
	} {
		for _, m := range models {
			if same(m) {
				return s.writeJSON(w, r, http.StatusOK, m.body())
			}
		}
	}
	return errNotFound("there is no model %.100q; GET /v1/models lists them", wanted)
}
