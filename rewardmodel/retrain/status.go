package retrain

import (
	"cmp"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Trigger is why a training run starts.
type Trigger string

// The triggers.
const (
	TriggerNone         Trigger = ""
	TriggerBags         Trigger = "bags"         // enough new labeled responses of both labels
	TriggerDrift        Trigger = "drift"        // the distribution of the scores has changed since the promotion
	TriggerDisagreement Trigger = "disagreement" // new labels contradict the decisions of the model
	TriggerSchedule     Trigger = "schedule"
	TriggerManual       Trigger = "manual"
)

// Phase is the phase of a training run.
type Phase string

// The phases of a training run, in order. The status of a fleet that does not train
// is PhaseIdle.
const (
	PhaseIdle       Phase = "idle"
	PhaseCollecting Phase = "collecting" // reads the feedback
	PhaseTraining   Phase = "training"
	PhaseGating     Phase = "gating"     // compares the candidate with the current model
	PhasePublishing Phase = "publishing" // stores the candidate and makes it current
)

// Result is how a training run ended.
type Result string

// The results of training runs.
const (
	ResultPromoted Result = "promoted"
	ResultRejected Result = "rejected"
	ResultFailed   Result = "failed"
	ResultCanceled Result = "canceled" // an operator stopped it
)

// Status is the status of the only training run of the fleet, or PhaseIdle: the value
// of the key "training" of ASSAY_STATE. Its owner has the lease to train as long as it
// renews the status.
type Status struct {
	Phase    Phase     `json:"phase"`
	ID       string    `json:"id,omitzero"`
	Owner    string    `json:"owner,omitzero"` // the replica that trains
	Trigger  Trigger   `json:"trigger,omitzero"`
	Reason   string    `json:"reason,omitzero"`
	By       string    `json:"by,omitzero"` // who requested it, when it is TriggerManual
	Started  time.Time `json:"started,omitzero"`
	Updated  time.Time `json:"updated,omitzero"`
	Base     string    `json:"base,omitzero"`    // the current version when it started
	Through  uint64    `json:"through,omitzero"` // last sequence of ASSAY_FEEDBACK that it reads
	Bags     int       `json:"bags,omitzero"`
	HeldOut  int       `json:"held_out,omitzero"`
	Progress *Progress `json:"progress,omitzero"`
	Attempt  int       `json:"attempt,omitzero"` // 1 for the first; more after the death of a service or a retryable error
	// Interrupted counts how often its child process was killed.
	Interrupted int  `json:"interrupted,omitzero"`
	Refreeze    bool `json:"refreeze,omitzero"` // see TrainingRequest
	// Last is the outcome of the previous training run.
	Last *Outcome `json:"last,omitzero"`
	// Requested is a pending request for a training run.
	Requested *TrainingRequest `json:"asked,omitzero"`
	// Canceled is who stopped the training run, whose owner ends it.
	Canceled *Cancellation `json:"canceled,omitzero"`
	// Revision is that of the stored value, for optimistic updates; 0: none is stored.
	Revision uint64 `json:"-"`
}

// TrainingRequest is a request for a training run.
type TrainingRequest struct {
	By     string    `json:"by"`
	Reason string    `json:"reason,omitzero"`
	Time   time.Time `json:"time"`
	// Refreeze judges the candidate on the current labels of the hold-out, not
	// on those at the last promotion, for when the labelling policy has changed.
	Refreeze bool `json:"refreeze,omitzero"`
}

// Cancellation is a request to stop the training run in progress.
type Cancellation struct {
	By     string    `json:"by"`
	Reason string    `json:"reason,omitzero"`
	Time   time.Time `json:"time"`
}

func (c Cancellation) reason() string {
	return cmp.Or(c.Reason, "stopped by "+cmp.Or(c.By, "somebody"))
}

// Progress is the progress of the child process.
type Progress struct {
	Epoch       int     `json:"epoch"`
	Epochs      int     `json:"epochs"`
	Stage       string  `json:"stage"`
	Step        int     `json:"step"` // of all epochs
	Steps       int     `json:"steps"`
	Loss        float64 `json:"loss"`
	SecondsLeft float64 `json:"seconds_left"` // estimated; without the gate
}

// Outcome is the outcome of a training run.
type Outcome struct {
	ID       string    `json:"id"`
	Result   Result    `json:"result"`
	Version  string    `json:"version,omitzero"` // of the candidate
	Reason   string    `json:"reason"`
	By       string    `json:"by,omitzero"` // who stopped it
	Finished time.Time `json:"finished"`
	// Through is the last sequence of ASSAY_FEEDBACK that it read. Later feedback
	// is new.
	Through uint64 `json:"through"`
	// Failures counts the failed training runs in a row.
	Failures int `json:"failures,omitzero"`
}

// EventKind is the last part of an event's subject, below assay.v1.events.
type EventKind string

// The kinds of events.
const (
	EventTrained          EventKind = "model.trained"     // a candidate was trained; the gate is next
	EventPromoted         EventKind = "model.promoted"    // the candidate is the current version
	EventRejected         EventKind = "model.rejected"    // the candidate did not pass the gate
	EventRolledBack       EventKind = "model.rolledback"  // an earlier version is current again
	EventLoadFailed       EventKind = "model.load_failed" // a replica cannot load the current version and serves another
	EventTrainingStarted  EventKind = "training.started"
	EventTrainingResumed  EventKind = "training.resumed"  // after the death of a process or a retryable error
	EventTrainingProgress EventKind = "training.progress" // a stage of an epoch starts
	EventTrainingFailed   EventKind = "training.failed"
	EventTrainingCanceled EventKind = "training.canceled" // an operator stopped a run, or withdrew a request
	EventFeedbackErased   EventKind = "feedback.erased"
	EventFeedbackDisputed EventKind = "feedback.disputed" // the raters of some bags disagree
	EventRecordDamaged    EventKind = "record.damaged"    // a stored record is not as it was written
)

// Event is an event that is stored in ASSAY_EVENTS.
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
