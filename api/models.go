package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"assay/rewardmodel/retrain"
)

// Model describes one model version that serves.
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

// modelBody is an OpenAI model object with assay's fields beside. Those from
// State on come from the registry.
type modelBody struct {
	ID        string        `json:"id"`
	Object    string        `json:"object"`
	Created   int64         `json:"created"`
	OwnedBy   string        `json:"owned_by"`
	Name      string        `json:"name"`
	Version   string        `json:"version"`
	Threshold float64       `json:"threshold"`
	Labels    []string      `json:"labels"`
	Serving   bool          `json:"serving"`
	Current   bool          `json:"current"`
	State     retrain.State `json:"state,omitzero"`
	Parent    string        `json:"parent,omitzero"`
	Method    string        `json:"method,omitzero"`
	By        string        `json:"by,omitzero"`
	Reason    string        `json:"reason,omitzero"`

	// Not in the list.
	Data  *retrain.Data           `json:"data,omitzero"`
	Gate  jsontext.Value          `json:"gate,omitzero"`
	Files map[string]retrain.File `json:"files,omitzero"`
}

// catalog is what is known of all models.
type catalog struct {
	serving []Model
	current string // the version that is to serve; "" when nobody knows
}

// ownName is what a version is called that does not serve while none does.
const ownName = "assay"

func (c catalog) name() string {
	if len(c.serving) == 0 {
		return ownName
	}
	return c.serving[0].Name
}

// find returns the serving model of a version.
func (c catalog) find(version string) (Model, bool) {
	i := slices.IndexFunc(c.serving, func(m Model) bool { return m.Version == version })
	if i < 0 {
		return Model{}, false
	}
	return c.serving[i], true
}

// described is a serving model, as far as it is known without a registry.
func (c catalog) described(m Model) modelBody {
	return modelBody{
		ID: m.Version, Object: "model", Created: seconds(m.Created), OwnedBy: "assay",
		Name: m.Name, Version: m.Version, Threshold: m.Threshold, Labels: append([]string{}, m.Labels...),
		Serving: true, Current: m.Version == c.current,
	}
}

// recorded is a model as the registry knows it. What serves knows its own name.
func (c catalog) recorded(m retrain.Model) modelBody {
	body := modelBody{
		ID: m.Version, Object: "model", Created: seconds(m.Created), OwnedBy: "assay",
		Name: c.name(), Version: m.Version, Threshold: m.Threshold, Labels: append([]string{}, m.Labels...),
		Current: m.Version == c.current,
	}
	if serving, ok := c.find(m.Version); ok {
		body = c.described(serving)
	}
	body.State, body.Parent, body.Method, body.By, body.Reason = m.State, m.Parent, m.Method, m.By, m.Reason
	return body
}

func seconds(t time.Time) int64 { return max(0, t.Unix()) }

// loaded is the catalog without a registry.
func (s *Server) loaded(ctx context.Context) (catalog, error) {
	serving, err := s.parts.Models.Models(ctx)
	c := catalog{serving: serving}
	if s.parts.Registry == nil && len(serving) > 0 {
		c.current = serving[0].Version
	}
	return c, err
}

// listModels lists what serves first, and then what else the registry knows.
func (s *Server) listModels(w http.ResponseWriter, r *http.Request) error {
	c, err := s.loaded(r.Context())
	if err != nil {
		return err
	}
	var records []retrain.Model
	if s.parts.Registry != nil {
		all, err := readOr(w, r, &s.known.fleet, s.fleet)
		if err != nil {
			return err
		}
		c.current, records = all.current.Version, all.records
	}
	data := make([]modelBody, 0, len(c.serving)+len(records))
	for _, m := range c.serving {
		data = append(data, c.described(m))
	}
	for _, m := range records {
		body := c.recorded(m)
		if i := slices.IndexFunc(data, func(b modelBody) bool { return b.Version == m.Version }); i >= 0 {
			data[i] = body
			continue
		}
		data = append(data, body)
	}
	return s.writeJSON(w, r, http.StatusOK, map[string]any{"object": "list", "data": data})
}

// showModel finds a model by its version, or by its name, which stands for the
// version that serves under it.
func (s *Server) showModel(w http.ResponseWriter, r *http.Request) error {
	wanted, err := pathValue(r, "version")
	if err != nil {
		return err
	}
	c, err := s.loaded(r.Context())
	if err != nil {
		return err
	}
	versions := []string{wanted}
	if i := slices.IndexFunc(c.serving, func(m Model) bool { return m.Name == wanted }); i >= 0 {
		versions = append(versions, c.serving[i].Version)
	}
	body, err := s.model(w, r, &c, versions)
	if errors.Is(err, retrain.ErrNoModel) {
		w.Header().Del("Age")
		return errNotFound("there is no model %.100q; GET /v1/models lists them", wanted)
	}
	if err != nil {
		return err
	}
	return s.writeJSON(w, r, http.StatusOK, body)
}

// model is all that is known of the first version of which anything is. The error
// wraps retrain.ErrNoModel when there is none.
func (s *Server) model(w http.ResponseWriter, r *http.Request, c *catalog, versions []string) (modelBody, error) {
	err := retrain.ErrNoModel
	var record retrain.Model
	if s.parts.Registry != nil {
		record, err = s.record(w, r, c, versions)
	}
	if err == nil {
		body := c.recorded(record)
		body.Data, body.Gate, body.Files = record.Data, record.Gate, record.Files
		return body, nil
	}
	if !errors.Is(err, retrain.ErrNoModel) {
		return modelBody{}, err
	}
	for _, version := range versions {
		if serving, ok := c.find(version); ok {
			return c.described(serving), nil
		}
	}
	return modelBody{}, err
}

// record reads the record of the first version that has one, and the current
// version, from what is known while NATS is away. That takes one read: each would
// wait for NATS.
func (s *Server) record(w http.ResponseWriter, r *http.Request, c *catalog, versions []string) (retrain.Model, error) {
	record, err := read(r.Context(), func(ctx context.Context) (record retrain.Model, err error) {
		current, err := s.parts.Registry.Current(ctx)
		if err != nil {
			return record, err
		}
		c.current = current.Version
		for _, version := range versions {
			if record, err = s.parts.Registry.Model(ctx, version); !errors.Is(err, retrain.ErrNoModel) {
				break
			}
		}
		return record, err
	})
	last, at := s.known.fleet.get()
	if !errors.Is(err, errUnreachable) || at.IsZero() {
		return record, err
	}
	setAge(w, time.Since(at))
	c.current = last.current.Version
	for _, version := range versions {
		if i := slices.IndexFunc(last.records, func(m retrain.Model) bool { return m.Version == version }); i >= 0 {
			return last.records[i], nil
		}
	}
	return retrain.Model{}, retrain.ErrNoModel
}

func (s *Server) promote(w http.ResponseWriter, r *http.Request) error {
	version, err := pathValue(r, "version")
	if err != nil {
		return err
	}
	reason, err := s.readReason(w, r)
	if err != nil {
		return err
	}
	by := exchangeOf(r).by
	current, err := s.parts.Promotions.Promote(r.Context(), version, by, reason)
	if err != nil {
		return err
	}
	return s.writeJSON(w, r, http.StatusOK, current)
}

func (s *Server) rollBack(w http.ResponseWriter, r *http.Request) error {
	reason, err := s.readReason(w, r)
	if err != nil {
		return err
	}
	current, err := s.parts.Promotions.Rollback(r.Context(), exchangeOf(r).by, reason)
	if err != nil {
		return err
	}
	return s.writeJSON(w, r, http.StatusOK, current)
}
