// Package retrain trains better models from feedback without supervision. It
// decides when to train, what to train on and whether the candidate may serve, in a
// loop that survives the death of any process.
//
// It is pure Go: package queue implements the interfaces of the stores, and the
// computation runs in a child process of the sidecar.
package retrain

import (
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Errors of a registry.
var (
	// ErrNoModel reports that the registry has no such version.
	ErrNoModel = errors.New("no such model version")
	// ErrExists reports that a version was registered before: IDs are never
	// reused.
	ErrExists = errors.New("this model version exists")
	// ErrChanged reports that a value has changed since it was read.
	ErrChanged = errors.New("changed concurrently")
	// ErrNoFiles reports that the files of a version are not stored, so that it
	// cannot serve again: it was rejected or retired.
	ErrNoFiles = errors.New("the files of this model version are not stored")
	// ErrDamaged reports that stored files do not have the checksums of the
	// registry.
	ErrDamaged = errors.New("stored model is damaged")
	// ErrNoPrevious reports that there is no version to roll back to.
	ErrNoPrevious = errors.New("no previous model version")
	// ErrNoTraining reports that no training run is in progress or requested.
	ErrNoTraining = errors.New("no training run is in progress or requested")
)

// State is the state of a model version.
type State string

// The states of a version. Only Current specifies which one serves.
const (
	StateInitial  State = "initial"  // the initial model of a service; its files are not in the store
	StatePromoted State = "promoted" // passed the gate, or was promoted by hand
	StateRejected State = "rejected" // failed the gate; its files are not stored
	StateRetired  State = "retired"  // was promoted; its files are deleted
)

// Model is the record of a version: its origin and why it was
// promoted or rejected. It is the audit trail of GET /v1/models/{version}.
type Model struct {
	Version   string    `json:"version"`
	State     State     `json:"state"`
	Parent    string    `json:"parent,omitzero"` // the version it was trained from
	Created   time.Time `json:"created"`
	Method    string    `json:"method,omitzero"`
	Threshold float64   `json:"threshold"` // T of the default aggregate, in [0,1]
	Labels    []string  `json:"labels,omitzero"`
	Aspects   []string  `json:"aspects,omitzero"` // the names; nil: one without a name
	By        string    `json:"by"`               // who promoted or rejected it: "gate", or the name of a token
	Reason    string    `json:"reason"`           // why, in a sentence
	Data      *Data     `json:"data,omitzero"`
	// Gate is the report of package gate.
	Gate  jsontext.Value  `json:"gate,omitzero"`
	Files map[string]File `json:"files,omitzero"` // in the object store, by name
}

// Bytes is the size of the stored files.
func (m Model) Bytes() (n int64) {
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// File is one stored file of a model.
type File struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // in hexadecimal
}

// Data describes the training and evaluation data of a model.
type Data struct {
	Training   string  `json:"training"` // ID of the training run
	Trigger    Trigger `json:"trigger"`
	Reason     string  `json:"reason"`     // of the trigger, in a sentence
	Through    uint64  `json:"through"`    // the last sequence of ASSAY_FEEDBACK that was read
	Bags       int     `json:"bags"`       // trained on
	Violations int     `json:"violations"` // of these
	New        int     `json:"new"`        // of these, labeled or changed since the previous training run
	HeldOut    int     `json:"held_out"`   // bags that the gate used
	Disputed   int     `json:"disputed"`   // omitted: the raters disagree
	// OverShare are omitted from the training and held-out responses because no sender
	// may have more than Policy.MaxSenderShare of a label.
	OverShare int    `json:"over_share,omitzero"`
	Raters    int    `json:"raters"`
	Digest    string `json:"digest"` // of the IDs and labels of the training bags
	// Aspects counts the labels of each aspect of a model with several.
	Aspects  map[string]AspectData `json:"aspects,omitzero"`
	Settings map[string]any        `json:"settings,omitzero"`
	Seconds  float64               `json:"seconds"` // duration of training and gate
}

// AspectData counts the labels of one aspect; its fields are as in Data.
type AspectData struct {
	Bags              int `json:"bags"`
	Violations        int `json:"violations"`
	HeldOut           int `json:"held_out"`
	HeldOutViolations int `json:"held_out_violations"`
}

// Current names the version that every replica serves.
type Current struct {
	Version string    `json:"version"`
	Since   time.Time `json:"since"`
	By      string    `json:"by"`
	Reason  string    `json:"reason"`
	// Previous are the versions before it, the latest last, for rollbacks.
	Previous []string `json:"previous,omitzero"`
	// Anchor is the best version so far; a candidate must not be worse. It is the
	// version that was last promoted by hand or by the start of a service, until a
	// candidate is shown to be better. "", as stored by older releases: Version.
	Anchor string `json:"anchor,omitzero"`
	// Revision is that of the stored value, for optimistic updates; 0: none is stored.
	Revision uint64 `json:"-"`
}
