package retrain

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Trigger says why a training starts.
type Trigger string

// The triggers.
const (
	TriggerNone         Trigger = ""
	TriggerBags         Trigger = "bags"         // enough new labelled responses of both labels
	TriggerDrift        Trigger = "drift"        // the scores are distributed otherwise than after the promotion
	TriggerDisagreement Trigger = "disagreement" // new labels contradict the decisions of the model
	TriggerSchedule     Trigger = "schedule"
	TriggerManual       Trigger = "manual"
)

// Phase is where a training stands.
type Phase string

// The phases of a training, in order. The status of a fleet that does not train
// is PhaseIdle.
const (
	PhaseIdle       Phase = "idle"
	PhaseCollecting Phase = "collecting" // reads the feedback
	PhaseTraining   Phase = "training"
	PhaseGating     Phase = "gating"     // compares the candidate with the current model
	PhasePublishing Phase = "publishing" // stores the candidate and makes it current
)

// Result is how a training ended.
type Result string

// How a training ends.
const (
	ResultPromoted Result = "promoted"
	ResultRejected Result = "rejected"
	ResultFailed   Result = "failed"
)

// Status is the one training of the fleet, or that there is none: the value of
// the key "training" of ASSAY_STATE. Who holds it and keeps it fresh has the
// lease to train.
type Status struct {
	Phase    Phase     `json:"phase"`
	ID       string    `json:"id,omitzero"`
	Owner    string    `json:"owner,omitzero"` // the replica that trains
	Trigger  Trigger   `json:"trigger,omitzero"`
	Reason   string    `json:"reason,omitzero"`
	By       string    `json:"by,omitzero"` // who asked for it, when it is TriggerManual
	Started  time.Time `json:"started,omitzero"`
	Updated  time.Time `json:"updated,omitzero"`
	Base     string    `json:"base,omitzero"`    // the current version when it began
	Through  uint64    `json:"through,omitzero"` // the last sequence of ASSAY_FEEDBACK that it reads
	Bags     int       `json:"bags,omitzero"`
	HeldOut  int       `json:"held_out,omitzero"`
	Progress *Progress `json:"progress,omitzero"`
	Attempt  int       `json:"attempt,omitzero"` // 1 for the first; more after the death of a service
	// Interrupted counts how often its child process was killed.
	Interrupted int  `json:"interrupted,omitzero"`
	Refreeze    bool `json:"refreeze,omitzero"` // see Ask
	// Last is how the training before ended.
	Last *Outcome `json:"last,omitzero"`
	// Asked is a training that somebody asked for and that has not begun.
	Asked *Ask `json:"asked,omitzero"`
	// Revision is that of the stored value, for changing it; 0: there is none.
	Revision uint64 `json:"-"`
}

// Ask is a training by hand.
type Ask struct {
	By     string    `json:"by"`
	Reason string    `json:"reason,omitzero"`
	Time   time.Time `json:"time"`
	// Refreeze judges the candidate on the labels that the hold-out has now,
	// instead of those that it had at the last promotion: for a policy that
	// has changed.
	Refreeze bool `json:"refreeze,omitzero"`
}

// Progress is how far the child process is.
type Progress struct {
	Epoch       int     `json:"epoch"`
	Epochs      int     `json:"epochs"`
	Stage       string  `json:"stage"`
	Step        int     `json:"step"` // of all epochs
	Steps       int     `json:"steps"`
	Loss        float64 `json:"loss"`
	SecondsLeft float64 `json:"seconds_left"` // estimated; of the training, without the gate
}

// Outcome is a training that has ended.
type Outcome struct {
	ID       string    `json:"id"`
	Result   Result    `json:"result"`
	Version  string    `json:"version,omitzero"` // of the candidate
	Reason   string    `json:"reason"`
	Finished time.Time `json:"finished"`
	// Through is the last sequence of ASSAY_FEEDBACK that it read. Feedback
	// after it is new.
	Through uint64 `json:"through"`
	// Failures counts the failed trainings in a row.
	Failures int `json:"failures,omitzero"`
}

// EventKind is the last part of an event's subject, below assay.v1.events.
type EventKind string

// What happens to models, trainings and feedback.
const (
	EventTrained          EventKind = "model.trained"     // a candidate exists; the gate comes next
	EventPromoted         EventKind = "model.promoted"    // it is the current version now
	EventRejected         EventKind = "model.rejected"    // the gate kept it out
	EventRolledBack       EventKind = "model.rolledback"  // an earlier version is current again
	EventLoadFailed       EventKind = "model.load_failed" // a replica cannot load the current version and serves another
	EventTrainingStarted  EventKind = "training.started"
	EventTrainingResumed  EventKind = "training.resumed"  // after the death of a process
	EventTrainingProgress EventKind = "training.progress" // a stage of an epoch begins
	EventTrainingFailed   EventKind = "training.failed"
	EventFeedbackErased   EventKind = "feedback.erased"
	EventFeedbackDisputed EventKind = "feedback.disputed" // how many bags have raters that do not agree
)

// Event is one thing that happened, kept in ASSAY_EVENTS.
type Event struct {
	Sequence uint64         `json:"-"` // in the stream; 0 before it is stored
	Kind     EventKind      `json:"kind"`
	Time     time.Time      `json:"time"`
	Replica  string         `json:"replica,omitzero"`
	Version  string         `json:"version,omitzero"`
	Training string         `json:"training,omitzero"`
	By       string         `json:"by,omitzero"`
	Reason   string         `json:"reason"`
	Details  jsontext.Value `json:"details,omitzero"`
	// Key makes the event unique: a second one with the same key is dropped.
	Key string `json:"-"`
}
