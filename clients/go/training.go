package assay

import (
	"context"
	"time"
)

// Training is the state of training, of which at most one run is in progress
// across all replicas.
type Training struct {
	TrainingStatus
	Auto         bool          `json:"auto"` // runs start automatically
	Wait         string        `json:"wait"` // why no run starts now; "" if one is in progress
	Next         time.Time     `json:"next"` // when the wait may end; zero if it depends on more than time
	Feedback     FeedbackStats `json:"feedback"`
	Drift        Drift         `json:"drift"`
	Disagreement Disagreement  `json:"disagreement"`
}

// TrainingStatus is the status of the training run in progress and of the last one.
type TrainingStatus struct {
	Phase       string           `json:"phase"` // idle, collecting, training, gating or publishing
	ID          string           `json:"id"`
	Owner       string           `json:"owner"` // the replica that runs it
	Trigger     string           `json:"trigger"`
	Reason      string           `json:"reason"` // why it started
	By          string           `json:"by"`     // who requested it
	Started     time.Time        `json:"started"`
	Updated     time.Time        `json:"updated"`
	Base        string           `json:"base"`    // the current version at its start
	Through     uint64           `json:"through"` // last sequence number of the feedback stream used
	Bags        int              `json:"bags"`
	HeldOut     int              `json:"held_out"`
	Attempt     int              `json:"attempt"`     // from 1; increases when a replica dies
	Interrupted int              `json:"interrupted"` // how often its child process was killed
	Refreeze    bool             `json:"refreeze"`
	Progress    *Progress        `json:"progress"`
	Last        *TrainingOutcome `json:"last"`
	Requested   *PendingTraining `json:"asked"`
	Canceled    *Cancellation    `json:"canceled"` // the run is being stopped
}

// Progress is the progress of a training run.
type Progress struct {
	Epoch       int     `json:"epoch"`
	Epochs      int     `json:"epochs"`
	Stage       string  `json:"stage"`
	Step        int     `json:"step"` // across all epochs
	Steps       int     `json:"steps"`
	Loss        float64 `json:"loss"`
	SecondsLeft float64 `json:"seconds_left"` // estimate, without the gate
}

// TrainingOutcome is the outcome of a training run.
type TrainingOutcome struct {
	ID       string    `json:"id"`
	Result   string    `json:"result"`  // promoted, rejected, failed or canceled
	Version  string    `json:"version"` // version of the candidate
	Reason   string    `json:"reason"`
	By       string    `json:"by"` // who stopped it
	Finished time.Time `json:"finished"`
	Through  uint64    `json:"through"`
	Failures int       `json:"failures"` // consecutive failed runs
}

// PendingTraining is a requested training run that has not started.
type PendingTraining struct {
	By       string    `json:"by"`
	Reason   string    `json:"reason"`
	Time     time.Time `json:"time"`
	Refreeze bool      `json:"refreeze"`
}

// Cancellation is who stopped the training run in progress, and why.
type Cancellation struct {
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	Time   time.Time `json:"time"`
}

// Drift compares the recent scores of the current version with its reference,
// by the two-sample Kolmogorov-Smirnov test.
type Drift struct {
	Reference int     `json:"reference"` // number of reference scores; 0 while they are collected
	Recent    int     `json:"recent"`    // number of recent scores
	Distance  float64 `json:"distance"`  // the largest difference of the distribution functions, in [0,1]
	PValue    float64 `json:"p_value"`   // probability of a distance this large without drift
	// Aspects has the drift of each aspect of a model with several by name. The fields
	// above are then those of Aspect, which has the largest distance.
	Aspect  string           `json:"aspect"`
	Aspects map[string]Drift `json:"aspects"`
}

// Disagreement compares new labels with the decisions of the current version.
type Disagreement struct {
	Labels  int `json:"labels"`
	Against int `json:"against"` // of these, the labels that contradict the decision
	// Aspects has the counts of each aspect of a model with several by name. Those above
	// are then of labels of the whole response.
	Aspects map[string]Disagreement `json:"aspects"`
}

// TrainingRequest requests a training run.
type TrainingRequest struct {
	Reason string `json:"reason,omitzero"` // recorded with the run
	// Refreeze evaluates the candidate with the current labels of the held-out
	// responses. Use it after the policy has changed.
	Refreeze bool `json:"refreeze,omitzero"`
}

// TrainingStop stops a training run.
type TrainingStop struct {
	ID     string `json:"id,omitzero"`     // of the training run; "": the one in progress
	Reason string `json:"reason,omitzero"` // recorded with the run
}

func (s TrainingStatus) check() error {
	if s.Phase == "" {
		return invalidResponse("field phase is missing")
	}
	return nil
}

func (t Training) check() error { return t.TrainingStatus.check() }

// Training returns the state of training. It fails with ErrNotEnabled if the
// service has feedback disabled.
func (c *Client) Training(ctx context.Context) (Training, error) {
	var t Training
	err := c.do(ctx, get("/v1/training", into(&t, Training.check)))
	return t, err
}

// StartTraining requests a training run, which starts once no other run is in
// progress and there are enough labels.
func (c *Client) StartTraining(ctx context.Context, request TrainingRequest) (TrainingStatus, error) {
	body, err := encode(request)
	if err != nil {
		return TrainingStatus{}, &InputError{-1, "request", err.Error()}
	}
	var status TrainingStatus
	err = c.do(ctx, change("/v1/training", body, into(&status, TrainingStatus.check)))
	return status, err
}

// StopTraining stops the training run in progress, or withdraws the request for one.
// A replica ends the run within seconds; its labels count for the next one. It fails
// with ErrNotFound if no run is in progress or requested, and with the code "changed"
// if another run is in progress or the run is being published.
func (c *Client) StopTraining(ctx context.Context, stop TrainingStop) (TrainingStatus, error) {
	body, err := encode(stop)
	if err != nil {
		return TrainingStatus{}, &InputError{-1, "stop", err.Error()}
	}
	var status TrainingStatus
	err = c.do(ctx, change("/v1/training/stop", body, into(&status, TrainingStatus.check)))
	return status, err
}
