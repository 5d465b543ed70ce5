package assay

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Model is a model version.
type Model struct {
	ID          string        `json:"id"` // the version
	Object      string        `json:"object"`
	Created     int64         `json:"created"` // Unix time in seconds; 0 if unknown
	OwnedBy     string        `json:"owned_by"`
	Name        string        `json:"name"`
	Version     string        `json:"version"`
	Threshold   float64       `json:"threshold"`   // decision threshold of the aggregate max, in [0,1], of the first aspect
	Aspects     []ModelAspect `json:"aspects"`     // of a model with several rules that serves
	Combination string        `json:"combination"` // how they become one reward
	Labels      []string      `json:"labels"`      // in the order of the checkpoint
	Numerics    string        `json:"numerics"`    // the arithmetic on the responding replica, while it serves; see ModelInfo
	Serving     bool          `json:"serving"`     // loaded on the responding replica
	Current     bool          `json:"current"`     // the version that every replica must serve
	State       string        `json:"state"`       // initial, promoted, rejected or retired; "" without a registry
	Parent      string        `json:"parent"`      // the version it was initialized from
	Method      string        `json:"method"`      // training method
	By          string        `json:"by"`          // who promoted or rejected it
	Reason      string        `json:"reason"`      // why
}

// ModelAspect is one rule of a model.
type ModelAspect struct {
	Name      string  `json:"name"`
	Weight    float64 `json:"weight"`    // in the reward; at least 0
	Threshold float64 `json:"threshold"` // decision threshold of the aggregate max, in [0,1]
}

// ModelRecord is a model with its complete record.
type ModelRecord struct {
	Model
	Data  *TrainingData        `json:"data"`  // nil if it was not trained by this service
	Gate  json.RawMessage      `json:"gate"`  // evaluation report of the promotion gate
	Files map[string]ModelFile `json:"files"` // stored files by name
}

// ModelFile is a file of a checkpoint.
type ModelFile struct {
	Size   int64  `json:"size"` // in bytes
	SHA256 string `json:"sha256"`
}

// TrainingData describes the data that a model was trained and evaluated on.
type TrainingData struct {
	Training   string                `json:"training"` // id of the training run
	Trigger    string                `json:"trigger"`
	Reason     string                `json:"reason"`     // why the run started
	Through    uint64                `json:"through"`    // last sequence number of the feedback stream used
	Bags       int                   `json:"bags"`       // responses trained on
	Violations int                   `json:"violations"` // of these
	New        int                   `json:"new"`        // of these, labeled or changed since the previous run
	HeldOut    int                   `json:"held_out"`   // responses used by the gate
	Disputed   int                   `json:"disputed"`   // excluded: the raters disagree
	OverShare  int                   `json:"over_share"` // excluded: no sender may have more than --max-sender-share of a label
	Raters     int                   `json:"raters"`
	Digest     string                `json:"digest"`  // of the ids and labels used for training
	Aspects    map[string]AspectData `json:"aspects"` // by name, of a model with several
	Settings   map[string]any        `json:"settings"`
	Seconds    float64               `json:"seconds"` // duration of training and gate
}

// AspectData counts the labels of one aspect; its fields are as in TrainingData.
type AspectData struct {
	Bags              int `json:"bags"`
	Violations        int `json:"violations"`
	HeldOut           int `json:"held_out"`
	HeldOutViolations int `json:"held_out_violations"`
}

// Current is the version that every replica must serve.
type Current struct {
	Version  string    `json:"version"`
	Since    time.Time `json:"since"`
	By       string    `json:"by"`
	Reason   string    `json:"reason"`
	Previous []string  `json:"previous"` // earlier versions, most recent last
	Anchor   string    `json:"anchor"`   // the best version so far, which a candidate must not be worse than; "": Version
}

func (m Model) check() error {
	if m.Version == "" {
		return invalidResponse("a model lacks its version")
	}
	return nil
}

func (m ModelRecord) check() error { return m.Model.check() }

func (c Current) check() error {
	if c.Version == "" {
		return invalidResponse("field version is missing")
	}
	return nil
}

type modelList struct {
	Data []Model `json:"data"`
}

func (l modelList) check() error {
	if l.Data == nil {
		return invalidResponse("field data is missing")
	}
	for _, m := range l.Data {
		if err := m.check(); err != nil {
			return err
		}
	}
	return nil
}

// Models lists all model versions: the serving ones first, then newest first.
func (c *Client) Models(ctx context.Context) ([]Model, error) {
	var list modelList
	err := c.do(ctx, get("/v1/models", into(&list, modelList.check)))
	return list.Data, err
}

// Model returns one model with its record, by version, or by name for the version
// that serves under that name. It fails with ErrNotFound if there is none.
func (c *Client) Model(ctx context.Context, version string) (ModelRecord, error) {
	segment, err := pathSegment("version", version)
	if err != nil {
		return ModelRecord{}, err
	}
	var m ModelRecord
	err = c.do(ctx, get("/v1/models/"+segment, into(&m, ModelRecord.check)))
	return m, err
}

// Promote makes a version the current one on every replica, regardless of the
// outcome of the gate. The reason is recorded and may be empty.
func (c *Client) Promote(ctx context.Context, version, reason string) (Current, error) {
	segment, err := pathSegment("version", version)
	if err != nil {
		return Current{}, err
	}
	return c.setCurrent(ctx, "/v1/models/"+segment+"/promote", reason)
}

// Rollback makes the previous version current again on every replica. It fails
// with ErrConflict if there is none.
func (c *Client) Rollback(ctx context.Context, reason string) (Current, error) {
	return c.setCurrent(ctx, "/v1/models/rollback", reason)
}

func (c *Client) setCurrent(ctx context.Context, path, reason string) (Current, error) {
	body, err := encode(TrainingRequest{Reason: reason})
	if err != nil {
		return Current{}, &InputError{-1, "reason", err.Error()}
	}
	var current Current
	err = c.do(ctx, change(path, body, into(&current, Current.check)))
	return current, err
}

// Ready returns nil if the service can score, or else the reason. It makes one
// attempt.
func (c *Client) Ready(ctx context.Context) error {
	var body struct {
		Status string `json:"status"`
	}
	return c.attempt(ctx, call{method: http.MethodGet, path: "/readyz", first: -1, parse: func(text []byte) error {
		if err := json.Unmarshal(text, &body); err != nil {
			return &InvalidResponseError{err}
		}
		if body.Status != "ready" {
			return invalidResponse("status %.60q", body.Status)
		}
		return nil
	}})
}
