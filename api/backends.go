package api

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"assay/api/access"
	"assay/api/internal/eventlog"
	"assay/internal/servertls"
	"assay/internal/trace"
	"assay/rewardmodel"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/live"
	"assay/rewardmodel/recent"
	"assay/rewardmodel/retrain"
)

// Parts are the backends of a server. Scorer and Models are required. Any other may
// be nil: its endpoints then respond 501 with the code not_enabled, as in a service
// without NATS. A part that is not ready yet returns an error that wraps
// [rewardmodel.ErrNotReady].
type Parts struct {
	Scorer Scorer
	Models Models
	Checks []Check
	// Tokens identify callers. Without them only callers on the same machine may
	// use the service, or everybody with Config.Insecure.
	Tokens *access.Tokens
	// Audit receives the audit log, one line for each change; nil: the log of the server.
	Audit *zerolog.Logger
	// TLS is the certificate of all listeners; nil: they serve plain HTTP and gRPC.
	TLS *servertls.Identity
	// Memory bounds what all concurrent requests hold; share it with everything
	// else that accepts requests. Without it there is no bound.
	Memory *rewardmodel.Memory
	// Tracer starts the spans of requests and calls; nil: none.
	Tracer *trace.Tracer

	Feedback     Feedback
	FeedbackView FeedbackView
	Registry     Registry
	Promotions   Promotions
	Trainer      Trainer
	Events       EventSource
	Scored       ScoredResponses
	Live         *live.Sessions
}

// Scorer scores responses. The error of Score is a *rewardmodel.InputError, wraps
// one of rewardmodel's sentinels, or is the context's; any other becomes a 500.
// Score returns soon after its context ends.
type Scorer interface {
	Score(ctx context.Context, request rewardmodel.Request) (rewardmodel.ScoreResponse, error)
}

// Models lists the models that serve. The first one scores requests that pin no
// version. The list is empty while none is loaded.
type Models interface {
	Models(ctx context.Context) ([]Model, error)
}

// Feedback stores labels. Its errors wrap feedback.ErrStoreFull or
// feedback.ErrUnavailable if the client should retry.
type Feedback interface {
	// Append returns once everything that its receipt counts as accepted is
	// durable. by is the caller that sent the batch.
	Append(ctx context.Context, batch feedback.Batch, by string) (feedback.Receipt, error)
	// Erase deletes everything stored about a response, and returns the number of
	// deleted records. Later items with that id are rejected.
	Erase(ctx context.Context, id, by string) (records int, err error)
	// Withdraw removes the label of one rater for a response, and returns the number
	// of withdrawn labels, 0 or 1. A delayed retry of the label does not undo it. by is
	// the caller.
	Withdraw(ctx context.Context, id, rater, by string) (records int, err error)
}

// FeedbackView summarizes the stored labels.
type FeedbackView interface {
	Stats(ctx context.Context) (feedback.Stats, error)
	// Candidates returns up to n scored responses whose labels would be the most
	// informative, the best first.
	Candidates(ctx context.Context, n int) ([]feedback.Candidate, error)
	// Labels returns the labels of a response by rater, none if it is unknown.
	Labels(ctx context.Context, id string) (feedback.ResponseLabels, error)
}

// Registry keeps a record of every model version.
type Registry interface {
	// Current returns the version that every replica must serve. Its Version is ""
	// before the first promotion.
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

// Trainer shows the training of the fleet, and starts and stops training runs.
type Trainer interface {
	Training(ctx context.Context) (Training, error)
	// Start requests a training run and returns the status with that request. The
	// run begins once no other is in progress and there is enough data.
	Start(ctx context.Context, ask retrain.TrainingRequest) (retrain.Status, error)
	// Stop cancels the training run in progress, or withdraws the request for one, and
	// returns the status with that. id is that of the run; "": any. Its errors wrap
	// retrain.ErrNoTraining, or retrain.ErrChanged if another run is in progress or it
	// is too late.
	Stop(ctx context.Context, id string, by retrain.Cancellation) (retrain.Status, error)
}

// Training is the training status of the fleet, what the policy waits for, and the
// statistics that it considers.
type Training struct {
	retrain.Status
	Auto bool      `json:"auto"`          // training runs start automatically
	Wait string    `json:"wait"`          // why no run starts now; "" if one does
	Next time.Time `json:"next,omitzero"` // when that changes by time only

	Feedback     feedback.Stats       `json:"feedback"`
	Drift        retrain.Drift        `json:"drift"`
	Disagreement retrain.Disagreement `json:"disagreement"`
}

// EventSource reads the event stream. The server reads it once for all its clients.
type EventSource = eventlog.Source

// ScoredResponses holds the responses that this process scored last, as
// [recent.Ring] does.
type ScoredResponses interface {
	// After returns the first n held responses after a sequence, 0 for the oldest, and
	// the sequence to continue after. If none follows, changed is closed once one does.
	After(sequence uint64, n int) (responses []*recent.Response, next uint64, changed <-chan struct{})
	// Before returns the sequence before the last n responses.
	Before(n int) uint64
	// Counts returns how many responses were scored, and how many of them were not
	// recorded.
	Counts() (scored, skipped uint64)
	// KeepsTexts reports whether the texts of responses are recorded.
	KeepsTexts() bool
}
