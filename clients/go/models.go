package assay

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Model is a model version.
type Model struct {
	ID        string   `json:"id"` // the version
	Object    string   `json:"object"`
	Created   int64    `json:"created"` // in seconds since 1970; 0 when unknown
	OwnedBy   string   `json:"owned_by"`
	Name      string   `json:"name"`
	Version   string   `json:"version"`
	Threshold float64  `json:"threshold"` // T of the aggregate max, in [0,1]
	Labels    []string `json:"labels"`    // in the checkpoint's order
	Serving   bool     `json:"serving"`   // the replica that answered has it loaded
	Current   bool     `json:"current"`   // every replica is to serve it
	State     string   `json:"state"`     // initial, promoted, rejected or retired; "" without a registry
	Parent    string   `json:"parent"`    // the version that it was trained from
	Method    string   `json:"method"`    // how it was trained
	By        string   `json:"by"`        // who promoted or rejected it
	Reason    string   `json:"reason"`    // why
}

// ModelRecord is a model with the whole record of it.
type ModelRecord struct {
	Model
	Data  *TrainingData        `json:"data"`  // nil for one that was not trained here
	Gate  json.RawMessage      `json:"gate"`  // the report of the gate: its figures and what decided
	Files map[string]ModelFile `json:"files"` // what is stored of it, by name
}

// ModelFile is a file of a checkpoint.
type ModelFile struct {
	Size   int64  `json:"size"` // in bytes
	SHA256 string `json:"sha256"`
}

// TrainingData says what a model was trained and judged on.
type TrainingData struct {
	Training   string         `json:"training"` // the id of the training
	Trigger    string         `json:"trigger"`
	Reason     string         `json:"reason"`     // why it started
	Through    uint64         `json:"through"`    // the last sequence of the feedback stream that it read
	Bags       int            `json:"bags"`       // responses trained on
	Violations int            `json:"violations"` // of these
	New        int            `json:"new"`        // of these, labelled or changed since the training before
	HeldOut    int            `json:"held_out"`   // responses that the gate used
	Disputed   int            `json:"disputed"`   // left out: the raters do not agree
	Raters     int            `json:"raters"`
	Digest     string         `json:"digest"` // of the ids and labels trained on
	Settings   map[string]any `json:"settings"`
	Seconds    float64        `json:"seconds"` // that training and gate took
}

// Current says which version every replica is to serve.
type Current struct {
	Version  string    `json:"version"`
	Since    time.Time `json:"since"`
	By       string    `json:"by"`
	Reason   string    `json:"reason"`
	Previous []string  `json:"previous"` // the versions before it, the last one last
}

func (m Model) check() error {
	if m.Version == "" {
		return badAnswer("a model has no version")
	}
	return nil
}

func (m ModelRecord) check() error { return m.Model.check() }

func (c Current) check() error {
	if c.Version == "" {
		return badAnswer("it names no current version")
	}
	return nil
}

type modelList struct {
	Data []Model `json:"data"`
}

func (l modelList) check() error {
	if l.Data == nil {
		return badAnswer("it has no list of models")
	}
	for _, m := range l.Data {
		if err := m.check(); err != nil {
			return err
		}
	}
	return nil
}

// Models lists every model version: those that serve first, then the newest
// first.
func (c *Client) Models(ctx context.Context) ([]Model, error) {
	var list modelList
	err := c.do(ctx, get("/v1/models", into(&list, modelList.check)))
	return list.Data, err
}

// Model returns one model with its record, by version, or by name for the
// version that serves under it. One that is not there is an ErrNotFound.
func (c *Client) Model(ctx context.Context, version string) (ModelRecord, error) {
	segment, err := part("version", version)
	if err != nil {
		return ModelRecord{}, err
	}
	var m ModelRecord
	err = c.do(ctx, get("/v1/models/"+segment, into(&m, ModelRecord.check)))
	return m, err
}

// Promote makes a version the current one, on every replica, whatever the gate
// said of it. The reason is kept; it may be empty.
func (c *Client) Promote(ctx context.Context, version, reason string) (Current, error) {
	segment, err := part("version", version)
	if err != nil {
		return Current{}, err
	}
	return c.setCurrent(ctx, "/v1/models/"+segment+"/promote", reason)
}

// Rollback makes the version before the current one current again, on every
// replica. Without one it is an ErrConflict.
func (c *Client) Rollback(ctx context.Context, reason string) (Current, error) {
	return c.setCurrent(ctx, "/v1/models/rollback", reason)
}

func (c *Client) setCurrent(ctx context.Context, path, reason string) (Current, error) {
	body, err := encode(TrainingAsk{Reason: reason})
	if err != nil {
		return Current{}, &InputError{-1, "reason", err.Error()}
	}
	var current Current
	err = c.do(ctx, change(path, body, into(&current, Current.check)))
	return current, err
}

// Ready is nil when the service can score; else it is why not. It asks once.
func (c *Client) Ready(ctx context.Context) error {
	var body struct {
		Status string `json:"status"`
	}
	return c.attempt(ctx, call{method: http.MethodGet, path: "/readyz", first: -1, read: func(text []byte) error {
		if err := json.Unmarshal(text, &body); err != nil {
			return &AnswerError{err}
		}
		if body.Status != "ready" {
			return badAnswer("its status is %.60q", body.Status)
		}
		return nil
	}})
}
