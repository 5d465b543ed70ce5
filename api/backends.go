package api

import (
	"context"
	"iter"
	"time"

	"assay/rewardmodel"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/retrain"
)

// Parts are what a server answers with. Scorer and Models are needed. Any other
// may be nil: its endpoints then answer 501 with the code not_enabled, as they
// do in a service without streams. A part that is there but not ready yet
// returns an error that wraps [rewardmodel.ErrNotReady].
type Parts struct {
	Scorer Scorer
	Models Models
	Checks []Check
	// Tokens identify callers. Without them only callers on the same machine
	// may use the service, or everybody with Config.Insecure.
	Tokens *Tokens
	// Memory bounds what all requests hold at the same time; share it with
	// whatever else takes requests. Without it there is no bound.
	Memory *rewardmodel.Memory

	Feedback     Feedback
	FeedbackView FeedbackView
	Registry     Registry
	Promotions   Promotions
	Trainings    Trainings
	Events       EventSource
}

// Scorer gives responses their rewards. The error of Score is a
// *rewardmodel.InputError, wraps one of rewardmodel's sentinels or
// [rewardmodel.ErrNotReady], or is the context's; anything else is answered 500. Score
// returns soon after its context ends.
type Scorer interface {
	Score(ctx context.Context, request rewardmodel.Request) (rewardmodel.Answer, error)
}

// Models tells which models serve, the one first that answers a request that
// pins none. The list is empty while none is loaded.
type Models interface {
	Models(ctx context.Context) ([]Model, error)
}

// Feedback keeps labels. Its errors wrap feedback.ErrStoreFull or
// feedback.ErrUnavailable when sending the same again is right.
type Feedback interface {
	// Append returns once everything that its receipt counts as accepted is
	// durable. by is who sent the batch.
	Append(ctx context.Context, batch feedback.Batch, by string) (feedback.Receipt, error)
	// Erase removes all that is kept of a response, and returns how many
	// records that were. Later items of that id are rejected.
	Erase(ctx context.Context, id, by string) (records int, err error)
}

// FeedbackView tells what the kept labels add up to.
type FeedbackView interface {
	Stats(ctx context.Context) (feedback.Stats, error)
	// Candidates returns up to n scored responses whose label would teach
	// most, the best first.
	Candidates(ctx context.Context, n int) ([]feedback.Candidate, error)
}

// Registry remembers every model version that there was.
type Registry interface {
	// Current names the version that every replica is to serve. Its Version
	// is "" before the first promotion.
	Current(ctx context.Context) (retrain.Current, error)
	// Model returns one record; its error wraps retrain.ErrNoModel.
	Model(ctx context.Context, version string) (retrain.Model, error)
	// Models returns all records, the newest first.
	Models(ctx context.Context) ([]retrain.Model, error)
}

// Promotions choose the version that serves. Their errors wrap
// retrain.ErrNoModel, ErrNoFiles, ErrDamaged, ErrChanged or ErrNoPrevious.
type Promotions interface {
	Promote(ctx context.Context, version, by, reason string) (retrain.Current, error)
	Rollback(ctx context.Context, by, reason string) (retrain.Current, error)
}

// Trainings shows the training of the fleet, and starts one.
type Trainings interface {
	Training(ctx context.Context) (Training, error)
	// Start asks for a training and returns the status that says so. The
	// training itself begins once none runs and there is the data for it.
	Start(ctx context.Context, ask retrain.Ask) (retrain.Status, error)
}

// Training is the training of the fleet, what the policy waits for, and what it
// looks at.
type Training struct {
	retrain.Status
	Auto bool      `json:"auto"`          // trainings start by themselves
	Wait string    `json:"wait"`          // why none starts now; "" when one does
	Next time.Time `json:"next,omitzero"` // when time alone changes that

	Feedback     feedback.Stats       `json:"feedback"`
	Drift        retrain.Drift        `json:"drift"`
	Disagreement retrain.Disagreement `json:"disagreement"`
}

// EventSource reads the stream of events. The server reads it once, for all its
// clients.
type EventSource interface {
	// Events yields every event after a sequence, the old ones first and then
	// each as it happens, until ctx ends or the consumer stops. An error is
	// that of an event that cannot be read, which then has its sequence at
	// least, or of the source, which ends it.
	Events(ctx context.Context, after uint64) iter.Seq2[retrain.Event, error]
	// LastEvent returns the sequence of the last event that is kept, 0 without
	// one.
	LastEvent(ctx context.Context) (uint64, error)
}
