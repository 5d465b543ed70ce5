package rewardmodel

import (
	"time"

	"assay/rewardmodel/batching"
)

// What the queue holds for jobs.
type (
	key      = batching.Key
	sequence = batching.Sequence[*job]
	waiter   = batching.Waiter[*job] // its place is that of an instance; see job.marginsOf
)

// windowed identifies an instance of several windows.
type windowed struct {
	key    key
	unique int
}

// job is the part of a request that the model has to compute: its sequences are the
// distinct instances, or their windows.
type job struct {
	batching.Job[*job]
	computing func(bool) // Request.Exclusive, or nil
	aspects   int        // of the model
	margins   []float32  // by distinct instance and aspect; the maximum of its windows so far
	windowed  []windowed // instances to cache when the job is done
	err       error      // why it failed; read it after done
	done      chan struct{}

	admitted  time.Time
	started   bool          // a batch has held one of its sequences
	inference time.Duration // of the batches that held its sequences
	trace     *jobTrace     // nil: the request has no span
}

func newJob(p batching.Priority, aspects int) *job {
	j := &job{aspects: aspects, done: make(chan struct{})}
	j.Owner, j.Priority = j, p
	return j
}

// marginsOf returns the margins of a distinct instance, one for each aspect.
func (j *job) marginsOf(unique int) []float32 { return j.margins[unique*j.aspects:][:j.aspects] }

// distinct is the number of distinct instances.
func (j *job) distinct() int { return len(j.margins) / j.aspects }
