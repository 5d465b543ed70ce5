// Package retrain turns feedback into better models without anybody watching:
// when to train, what to train on, whether the candidate may serve, and the
// loop around these that survives the death of any process.
//
// It is pure Go: where things are kept is behind interfaces that package queue
// satisfies, and what computes is a child process that sidecar starts.
package retrain

import (
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Errors of a registry.
var (
	// ErrNoModel says that the registry does not know a version.
	ErrNoModel = errors.New("no such model version")
	// ErrExists says that a version was registered before: ids are never
	// used again.
	ErrExists = errors.New("this model version exists")
	// ErrChanged says that somebody else changed a value since it was read.
	ErrChanged = errors.New("changed meanwhile")
	// ErrNoFiles says that the files of a version are not kept, so that it
	// cannot serve again: it was rejected, or retired.
	ErrNoFiles = errors.New("the files of this model version are not kept")
	// ErrDamaged says that stored files do not have the checksums of the
	// registry.
	ErrDamaged = errors.New("stored model is damaged")
	// ErrNoPrevious says that there is nothing to roll back to.
	ErrNoPrevious = errors.New("no previous model version")
)

// State says what became of a model version.
type State string

// The states of a version. The one that serves is named by Current alone.
const (
	StateInitial  State = "initial"  // what a service was started with; its files are not in the store
	StatePromoted State = "promoted" // passed the gate, or was put in by hand
	StateRejected State = "rejected" // did not pass; its files are not kept
	StateRetired  State = "retired"  // promoted once; its files are deleted
)

// Model is the record of a version: where it comes from and why it was
// promoted or rejected. It is the audit trail of GET /v1/models/{version}.
type Model struct {
	Version   string    `json:"version"`
	State     State     `json:"state"`
	Parent    string    `json:"parent,omitzero"` // the version it was trained from
	Created   time.Time `json:"created"`
	Method    string    `json:"method,omitzero"`
	Threshold float64   `json:"threshold"` // T of the default aggregate, in [0,1]
	Labels    []string  `json:"labels,omitzero"`
	By        string    `json:"by"`     // who promoted or rejected it: "gate", or the name of a token
	Reason    string    `json:"reason"` // why, in a sentence
	Data      *Data     `json:"data,omitzero"`
	// Gate is the report of the gate, as package gate writes it.
	Gate  jsontext.Value  `json:"gate,omitzero"`
	Files map[string]File `json:"files,omitzero"` // what the object store holds of it, by name
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

// Data says what a model was trained and judged on.
type Data struct {
	Training   string         `json:"training"` // the id of the training
	Trigger    Trigger        `json:"trigger"`
	Reason     string         `json:"reason"`     // of the trigger, in a sentence
	Through    uint64         `json:"through"`    // the last sequence of ASSAY_FEEDBACK that was read
	Bags       int            `json:"bags"`       // trained on
	Violations int            `json:"violations"` // of these
	New        int            `json:"new"`        // of these, labelled or changed since the training before
	HeldOut    int            `json:"held_out"`   // bags that the gate used
	Disputed   int            `json:"disputed"`   // left out: the raters do not agree
	Raters     int            `json:"raters"`
	Digest     string         `json:"digest"` // of the ids and labels trained on
	Settings   map[string]any `json:"settings,omitzero"`
	Seconds    float64        `json:"seconds"` // that training and gate took
}

// Current names the version that every replica serves.
type Current struct {
	Version string    `json:"version"`
	Since   time.Time `json:"since"`
	By      string    `json:"by"`
	Reason  string    `json:"reason"`
	// Previous are the versions before it, the last one last: the way back.
	Previous []string `json:"previous,omitzero"`
	// Anchor is the best version so far, which no candidate may fall behind: one
	// that a person or a start made current, until a candidate is shown to be
	// better. "", as older releases wrote it: Version.
	Anchor string `json:"anchor,omitzero"`
	// Revision is that of the stored value, for changing it; 0: there is none.
	Revision uint64 `json:"-"`
}
