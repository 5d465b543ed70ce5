package assay

import (
	"context"
	"time"
)

// Training is the one training of all replicas, how the one before ended, and
// what the next waits for.
type Training struct {
	TrainingStatus
	Auto         bool          `json:"auto"` // trainings start by themselves
	Wait         string        `json:"wait"` // why none starts now; "" when one does
	Next         time.Time     `json:"next"` // when time alone changes that; zero: never
	Feedback     FeedbackStats `json:"feedback"`
	Drift        Drift         `json:"drift"`
	Disagreement Disagreement  `json:"disagreement"`
}

// TrainingStatus is how far the training is.
type TrainingStatus struct {
	Phase       string           `json:"phase"` // idle, collecting, training, gating or publishing
	ID          string           `json:"id"`
	Owner       string           `json:"owner"` // the replica that trains
	Trigger     string           `json:"trigger"`
	Reason      string           `json:"reason"` // why it started
	By          string           `json:"by"`     // who asked for it
	Started     time.Time        `json:"started"`
	Updated     time.Time        `json:"updated"`
	Base        string           `json:"base"`    // the current version when it began
	Through     uint64           `json:"through"` // the last sequence of the feedback stream that it reads
	Bags        int              `json:"bags"`
	HeldOut     int              `json:"held_out"`
	Attempt     int              `json:"attempt"`     // 1 for the first; more after the death of a service
	Interrupted int              `json:"interrupted"` // how often its child process was killed
	Refreeze    bool             `json:"refreeze"`
	Progress    *Progress        `json:"progress"`
	Last        *TrainingOutcome `json:"last"`
	Asked       *TrainingAsked   `json:"asked"` // what somebody asked for and has not begun
}

// Progress is that of the steps of a training.
type Progress struct {
	Epoch       int     `json:"epoch"`
	Epochs      int     `json:"epochs"`
	Stage       string  `json:"stage"`
	Step        int     `json:"step"` // of all epochs
	Steps       int     `json:"steps"`
	Loss        float64 `json:"loss"`
	SecondsLeft float64 `json:"seconds_left"` // an estimate, without the gate
}

// TrainingOutcome is how a training ended.
type TrainingOutcome struct {
	ID       string    `json:"id"`
	Result   string    `json:"result"`  // promoted, rejected or failed
	Version  string    `json:"version"` // of the candidate
	Reason   string    `json:"reason"`
	Finished time.Time `json:"finished"`
	Through  uint64    `json:"through"`
	Failures int       `json:"failures"` // failed trainings in a row
}

// TrainingAsked is a training that somebody asked for.
type TrainingAsked struct {
	By       string    `json:"by"`
	Reason   string    `json:"reason"`
	Time     time.Time `json:"time"`
	Refreeze bool      `json:"refreeze"`
}

// Drift compares the recent scores of the current version with its reference,
// by the two-sample Kolmogorov-Smirnov test.
type Drift struct {
	Reference int     `json:"reference"` // scores of reference; 0 while they are gathered
	Recent    int     `json:"recent"`    // scores compared with them
	Distance  float64 `json:"distance"`  // the largest difference of the distribution functions, in [0,1]
	PValue    float64 `json:"p_value"`   // of a distance as large without a drift
}

// Disagreement compares new labels with the decisions of the current version.
type Disagreement struct {
	Labels  int `json:"labels"`
	Against int `json:"against"` // of these, those that contradict the decision
}

// TrainingAsk says why a training is asked for, and how it is judged.
type TrainingAsk struct {
	Reason string `json:"reason,omitzero"` // in a sentence; it is kept
	// Refreeze judges the candidate by the labels that the held-out responses
	// have now, for a policy that has changed.
	Refreeze bool `json:"refreeze,omitzero"`
}

func (s TrainingStatus) check() error {
	if s.Phase == "" {
		return badAnswer("a training has no phase")
	}
	return nil
}

func (t Training) check() error { return t.TrainingStatus.check() }

// Training tells how the training stands. Without feedback on the service it
// is an ErrNotEnabled.
func (c *Client) Training(ctx context.Context) (Training, error) {
	var t Training
	err := c.do(ctx, get("/v1/training", into(&t, Training.check)))
	return t, err
}

// StartTraining asks for a training, which starts as soon as none runs and
// there are the labels that it needs.
func (c *Client) StartTraining(ctx context.Context, ask TrainingAsk) (TrainingStatus, error) {
	body, err := encode(ask)
	if err != nil {
		return TrainingStatus{}, &InputError{-1, "ask", err.Error()}
	}
	var status TrainingStatus
	err = c.do(ctx, change("/v1/training", body, into(&status, TrainingStatus.check)))
	return status, err
}
