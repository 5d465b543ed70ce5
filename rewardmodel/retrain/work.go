package retrain

import (
	"context"
	"errors"
	"iter"

	"github.com/go-json-experiment/json/jsontext"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
)

// Statuses keeps the status of the fleet's one training, which is also the
// lease. SetStatus succeeds only from the revision that was read: ErrChanged.
type Statuses interface {
	Status(ctx context.Context) (Status, error)
	SetStatus(ctx context.Context, s Status) (Status, error)
}

// Models keeps the records and the files of model versions.
type Models interface {
	Model(ctx context.Context, version string) (Model, error) // ErrNoModel
	Models(ctx context.Context) ([]Model, error)
	Register(ctx context.Context, m Model) error // ErrExists
	Update(ctx context.Context, m Model) error
	Upload(ctx context.Context, version, dir string) (map[string]File, error)
	Remove(ctx context.Context, version string) error // the files alone
}

// Currents keeps which version serves. SetCurrent succeeds only from the
// revision that was read: ErrChanged.
type Currents interface {
	Current(ctx context.Context) (Current, error)
	SetCurrent(ctx context.Context, c Current) (Current, error)
}

// Holdout keeps what decides who is held out, and the labels that the hold-out
// had at the last promotion.
type Holdout interface {
	// HoldoutSalt returns the secret of feedback.Split, which never changes.
	HoldoutSalt(ctx context.Context) ([]byte, error)
	Frozen(ctx context.Context) (labels map[feedback.Hash]bool, version string, err error)
	Freeze(ctx context.Context, labels map[feedback.Hash]bool, version string) error
}

// Journal keeps events.
type Journal interface {
	Publish(ctx context.Context, e Event) error
}

// Labels is the feedback: what it adds up to, and the records themselves up to
// a sequence.
type Labels interface {
	Index() *feedback.Index
	Records(ctx context.Context, through uint64) iter.Seq2[feedback.Stored, error]
}

// Folders finds the checkpoint folder of a version, and fetches and checks it
// when it is not at hand.
type Folders interface {
	Folder(ctx context.Context, version string) (dir string, err error)
	// Verify fetches a version anew from the store, and loads it if this
	// process serves.
	Verify(ctx context.Context, m Model) error
}

// ErrInterrupted says that a worker ended for a reason that lies outside of the
// training, such as a kill: it is worth another attempt.
var ErrInterrupted = errors.New("the training was interrupted")

// Worker computes, aside and with the least priority. Every call may be
// repeated with the same arguments after any death, and then goes on.
type Worker interface {
	// Train trains from the checkpoint in init on the bag file and writes
	// the candidate to out.
	Train(ctx context.Context, init, bags, out string, report func(Progress)) error
	// Gate compares the candidate with the current model on bag files, and
	// writes its calibration into it when it passes.
	Gate(ctx context.Context, files GateFiles) (Verdict, error)
	// Describe reads what a checkpoint says of itself: version, threshold,
	// method, labels, time.
	Describe(dir string) (Model, error)
}

// GateFiles names what the gate compares, and on what.
type GateFiles struct {
	Current, Candidate string // checkpoint folders
	Anchor             string // that of the best version so far; "": Current is
	Holdout, Probe     string // bag files; the labels of Probe are not looked at
	Report             string // where the report is written
}

// Verdict is what the gate says.
type Verdict struct {
	Promote bool
	Better  bool   // shown to be better than the best version so far
	Reason  string // in a sentence, with figures
	Report  jsontext.Value
}

// Signals watches the scores that this replica gives.
type Signals interface {
	Drift() Drift
	Disagreement() Disagreement
}

// Recent returns texts as they are scored now, for the probe set.
type Recent func(ctx context.Context, n int) ([]bag.Bag, error)
