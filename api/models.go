package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/api/internal/httpjson"
	"assay/rewardmodel"
	"assay/rewardmodel/retrain"
)

// Model describes a model version that serves.
type Model struct {
	Name    string
	Version string // unique: never reused for other weights
	Created time.Time
	// Threshold is the adjusted decision threshold T of the default aggregate
	// (max), in [0,1]: a response is compliant up to it. Of several rules it is that of
	// the first.
	Threshold float64
	// Aspects are the rules that it scores, and Combination is how they become one
	// reward. Only a model with several rules has them.
	Aspects     []rewardmodel.Aspect
	Combination rewardmodel.Combination
	// Labels are the class names in the order of the checkpoint.
	Labels []string
	// Numerics identifies the arithmetic of the model on this replica; "" if unknown.
	Numerics string
}

// modelBody is an OpenAI model object with additional fields. Those from State on
// come from the registry.
type modelBody struct {
	ID          string                  `json:"id"`
	Object      string                  `json:"object"`
	Created     int64                   `json:"created"`
	OwnedBy     string                  `json:"owned_by"`
	Name        string                  `json:"name"`
	Version     string                  `json:"version"`
	Threshold   float64                 `json:"threshold"`        // of the first aspect
	Aspects     []aspectBody            `json:"aspects,omitzero"` // of a model with several
	Combination rewardmodel.Combination `json:"combination,omitzero"`
	Labels      []string                `json:"labels"`
	Numerics    string                  `json:"numerics,omitzero"` // of a serving model
	Serving     bool                    `json:"serving"`
	Current     bool                    `json:"current"`
	State       retrain.State           `json:"state,omitzero"`
	Parent      string                  `json:"parent,omitzero"`
	Method      string                  `json:"method,omitzero"`
	By          string                  `json:"by,omitzero"`
	Reason      string                  `json:"reason,omitzero"`

	// Omitted from the list.
	Data  *retrain.Data           `json:"data,omitzero"`
	Gate  jsontext.Value          `json:"gate,omitzero"`
	Files map[string]retrain.File `json:"files,omitzero"`
}

// aspectBody describes one rule of a model.
type aspectBody struct {
	Name      string  `json:"name"`
	Weight    float64 `json:"weight"`
	Threshold float64 `json:"threshold"` // T of the default aggregate (max), in [0,1]
}

// catalog is the known state of all models.
type catalog struct {
	serving []Model
	current string // the version that serves by default; "" if unknown
}

// defaultName is the name of the versions on record while no model serves.
const defaultName = "assay"

func (c catalog) name() string {
	if len(c.serving) == 0 {
		return defaultName
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

// describe returns the body of a serving model without what the registry has.
func (c catalog) describe(m Model) modelBody {
	body := modelBody{
		ID: m.Version, Object: "model", Created: seconds(m.Created), OwnedBy: "assay",
		Name: m.Name, Version: m.Version, Threshold: m.Threshold, Labels: append([]string{}, m.Labels...),
		Numerics: m.Numerics, Serving: true, Current: m.Version == c.current,
	}
	body.Combination = m.Combination
	for _, a := range m.Aspects {
		body.Aspects = append(body.Aspects, aspectBody{a.Name, a.Weight, a.Threshold(rewardmodel.AggregateMax)})
	}
	return body
}

// describeRecord returns the body of a model on record. A serving model has its
// own name.
func (c catalog) describeRecord(m retrain.Model) modelBody {
	body := modelBody{
		ID: m.Version, Object: "model", Created: seconds(m.Created), OwnedBy: "assay",
		Name: c.name(), Version: m.Version, Threshold: m.Threshold, Labels: append([]string{}, m.Labels...),
		Current: m.Version == c.current,
	}
	if serving, ok := c.find(m.Version); ok {
		body = c.describe(serving)
	}
	body.State, body.Parent, body.Method, body.By, body.Reason = m.State, m.Parent, m.Method, m.By, m.Reason
	return body
}

// modelEndpoints serve /v1/models.
type modelEndpoints struct {
	models     Models
	registry   Registry // may be nil
	promotions Promotions
	cache      *fleetCache
}

func seconds(t time.Time) int64 { return max(0, t.Unix()) }

// loaded returns the catalog of the serving models.
func (e modelEndpoints) loaded(ctx context.Context) (catalog, error) {
	serving, err := e.models.Models(ctx)
	c := catalog{serving: serving}
	if e.registry == nil && len(serving) > 0 {
		c.current = serving[0].Version
	}
	return c, err
}

// list lists the serving models first, and then the others on record.
func (e modelEndpoints) list(w http.ResponseWriter, r *http.Request) error {
	c, err := e.loaded(r.Context())
	if err != nil {
		return err
	}
	var records []retrain.Model
	if e.registry != nil {
		all, err := readCached(w, r, &e.cache.models, e.cache.fetchModels)
		if err != nil {
			return err
		}
		c.current, records = all.current.Version, all.records
	}
	data := make([]modelBody, 0, len(c.serving)+len(records))
	for _, m := range c.serving {
		data = append(data, c.describe(m))
	}
	for _, m := range records {
		body := c.describeRecord(m)
		if i := slices.IndexFunc(data, func(b modelBody) bool { return b.Version == m.Version }); i >= 0 {
			data[i] = body
			continue
		}
		data = append(data, body)
	}
	return httpjson.WriteJSON(w, r, http.StatusOK, map[string]any{"object": "list", "data": data})
}

// show finds a model by its version, or by its name, which means the version that
// serves under it.
func (e modelEndpoints) show(w http.ResponseWriter, r *http.Request) error {
	wanted, err := httpjson.PathValue(r, "version")
	if err != nil {
		return err
	}
	c, err := e.loaded(r.Context())
	if err != nil {
		return err
	}
	versions := []string{wanted}
	if i := slices.IndexFunc(c.serving, func(m Model) bool { return m.Name == wanted }); i >= 0 {
		versions = append(versions, c.serving[i].Version)
	}
	body, err := e.find(w, r, &c, versions)
	if errors.Is(err, retrain.ErrNoModel) {
		w.Header().Del("Age")
		return failure.NotFound("unknown model %.100q; GET /v1/models lists the models", wanted)
	}
	if err != nil {
		return err
	}
	return httpjson.WriteJSON(w, r, http.StatusOK, body)
}

// find returns the first of the versions that is known. The error wraps
// retrain.ErrNoModel if none is.
func (e modelEndpoints) find(w http.ResponseWriter, r *http.Request, c *catalog, versions []string) (modelBody, error) {
	err := retrain.ErrNoModel
	var record retrain.Model
	if e.registry != nil {
		record, err = e.record(w, r, c, versions)
	}
	if err == nil {
		body := c.describeRecord(record)
		body.Data, body.Gate, body.Files = record.Data, record.Gate, record.Files
		return body, nil
	}
	if !errors.Is(err, retrain.ErrNoModel) {
		return modelBody{}, err
	}
	for _, version := range versions {
		if serving, ok := c.find(version); ok {
			return c.describe(serving), nil
		}
	}
	return modelBody{}, err
}

// record returns the record of the first version that has one, and sets the
// current version; both come from the cache while NATS is unreachable. It reads
// once, since each read would wait for NATS.
func (e modelEndpoints) record(w http.ResponseWriter, r *http.Request, c *catalog, versions []string) (retrain.Model, error) {
	record, err := readFleet(r.Context(), func(ctx context.Context) (record retrain.Model, err error) {
		current, err := e.registry.Current(ctx)
		if err != nil {
			return record, err
		}
		c.current = current.Version
		for _, version := range versions {
			if record, err = e.registry.Model(ctx, version); !errors.Is(err, retrain.ErrNoModel) {
				break
			}
		}
		return record, err
	})
	last, at := e.cache.models.get()
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

func (e modelEndpoints) promote(w http.ResponseWriter, r *http.Request) error {
	version, err := httpjson.PathValue(r, "version")
	if err != nil {
		return err
	}
	exchange.Of(r).Subject = version
	reason, err := readReason(w, r)
	if err != nil {
		return err
	}
	by := exchange.Of(r).Caller
	current, err := e.promotions.Promote(r.Context(), version, by, reason)
	if err != nil {
		return err
	}
	return httpjson.WriteChange(w, r, http.StatusOK, current)
}

func (e modelEndpoints) rollBack(w http.ResponseWriter, r *http.Request) error {
	reason, err := readReason(w, r)
	if err != nil {
		return err
	}
	current, err := e.promotions.Rollback(r.Context(), exchange.Of(r).Caller, reason)
	if err != nil {
		return err
	}
	exchange.Of(r).Subject = current.Version
	return httpjson.WriteChange(w, r, http.StatusOK, current)
}
