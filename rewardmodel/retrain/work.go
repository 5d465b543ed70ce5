package retrain

import (
	"context"
	"errors"
	"iter"

	"github.com/go-json-experiment/json/jsontext"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
)

// Statuses stores the status of the only training run of the fleet, which is also
// the lease. SetStatus returns ErrChanged unless s has the stored revision.
type Statuses interface {
	Status(ctx context.Context) (Status, error)
	SetStatus(ctx context.Context, s Status) (Status, error)
}

// Models stores the records and the files of model versions.
type Models interface {
	Model(ctx context.Context, version string) (Model, error) // ErrNoModel
	Models(ctx context.Context) ([]Model, error)
	Register(ctx context.Context, m Model) error // ErrExists
	Update(ctx context.Context, m Model) error
	Upload(ctx context.Context, version, dir string) (map[string]File, error)
	Remove(ctx context.Context, version string) error // the files only
}

// Currents stores which version serves. SetCurrent returns ErrChanged unless c has
// the stored revision.
type Currents interface {
	Current(ctx context.Context) (Current, error)
	SetCurrent(ctx context.Context, c Current) (Current, error)
}

// Holdout stores the secret that selects the hold-out, and the labels of the
// hold-out at the last promotion.
type Holdout interface {
	// HoldoutSalt returns the secret of feedback.Split, which never changes.
	HoldoutSalt(ctx context.Context) ([]byte, error)
	Frozen(ctx context.Context) (labels map[feedback.Hash]feedback.Labels, version string, err error)
	Freeze(ctx context.Context, labels map[feedback.Hash]feedback.Labels, version string) error
}

// Journal stores events.
type Journal interface {
	Publish(ctx context.Context, e Event) error
}

// Labels is the feedback: its index, and the records up to a sequence.
type Labels interface {
	Index() *feedback.Index
	Records(ctx context.Context, through uint64) iter.Seq2[feedback.Stored, error]
}

// Directories returns the checkpoint directory of a version. It downloads and
// verifies a version that is not stored locally.
type Directories interface {
	Directory(ctx context.Context, version string) (dir string, err error)
	// Verify downloads a version from the store again, and loads it if this
	// process serves.
	Verify(ctx context.Context, m Model) error
}

// ErrInterrupted reports that a worker ended for a reason outside the training run,
// such as a kill: the run is retried.
var ErrInterrupted = errors.New("the training run was interrupted")

// Worker computes in the background, with the lowest priority. Every call may be
// repeated with the same arguments after a crash, and then resumes.
type Worker interface {
	// Train trains from the checkpoint in init on the bag file and writes
	// the candidate to out.
	Train(ctx context.Context, init, bags, out string, report func(Progress)) error
	// Gate compares the candidate with the current model on bag files, and
	// writes its calibration into it when it passes.
	Gate(ctx context.Context, files GateFiles) (Verdict, error)
	// Describe reads the metadata of a checkpoint: version, aspects, threshold,
	// method, labels, time.
	Describe(dir string) (Model, error)
}

// GateFiles are the models that the gate compares, and the data.
type GateFiles struct {
	Current, Candidate string // checkpoint directories
	Anchor             string // that of the best version so far; "": Current
	Holdout, Probe     string // bag files; the labels of Probe are ignored
	Report             string // output file of the report
}

// Verdict is the decision of the gate.
type Verdict struct {
	Promote bool
	Better  bool   // shown to be better than the best version so far
	Reason  string // in a sentence, with numbers
	Report  jsontext.Value
}

// Signals monitors the scores of this replica.
type Signals interface {
	Drift() Drift
	Disagreement() Disagreement
}

// Recent returns recently scored texts, for the probe set.
type Recent func(ctx context.Context, n int) ([]bag.Bag, error)
