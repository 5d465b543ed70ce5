package queue

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/queue/internal/dedup"
	"assay/queue/internal/js"
	"assay/queue/internal/jstest"
)

// Two processes that add marks at the same moment keep the earlier ones.
func TestMarksOfTwoProcesses(t *testing.T) {
	t.Parallel()
	q := openQueue(t, testConfig(t))
	ctx := jstest.Context(t)
	other, err := newWorker(q.nc, q.js, scorerFunc(good), q.cfg.Worker, q.log, q.metrics)
	require.NoError(t, err)
	mark := func() {
		for _, subject := range []string{SubjectResponses, SubjectRewards} {
			_, err := q.js.Publish(ctx, subject+".x", nil)
			require.NoError(t, err)
		}
		require.NoError(t, other.mark(ctx))
	}
	require.NoError(t, other.openState(ctx))
	mark()

	var once sync.Once
	jet := hooked{JetStream: q.js, stream: func(name string) {
		if name == StreamResponses {
			once.Do(mark) // between the streams of results, which the worker has read, and that of the responses
		}
	}}
	w, err := newWorker(q.nc, jet, scorerFunc(good), q.cfg.Worker, q.log, q.metrics)
	require.NoError(t, err)
	require.NoError(t, w.openState(ctx))
	require.NoError(t, w.mark(ctx))
	marks, _, err := js.Load[dedup.Marks](ctx, other.state, keyMarks)
	require.NoError(t, err)
	require.Len(t, marks.Marks, 2, "those of the other process")
}
