package retrain

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel/feedback"
)

// promotions executes training runs that the gate promotes, with these values of Better,
// and returns all versions, including the initial one.
func promotions(t *testing.T, f *fleet, better ...bool) []string {
	t.Helper()
	f.verdicts = nil
	for _, is := range better {
		f.verdicts = append(f.verdicts, Verdict{Promote: true, Better: is, Reason: "it is not worse"})
	}
	versions := []string{f.current.Version}
	defer f.start(t, "a", t.TempDir(), &process{})()
	for i := range better {
		f.label(100*i, 60)
		versions = append(versions, f.ended(t, i+1).Version)
	}
	return versions
}

// Candidates that are promoted without being shown to be better do not change the
// anchor, and are compared with it.
func TestAnchorMovesOnlyToWhatIsBetter(t *testing.T) {
	f := newFleet()
	v := promotions(t, f, true, false, false, true, false)
	require.Equal(t, v[5], f.current.Version)
	require.Equal(t, v[4], f.current.Anchor)
	var anchors []string
	for _, files := range f.judged {
		anchors = append(anchors, filepath.Base(files.Anchor))
	}
	none := "." // the current version is the anchor
	require.Equal(t, []string{none, none, "directory of " + v[1], "directory of " + v[1], none}, anchors)
}

// The files of the anchor are kept when those of later versions are not.
func TestAnchorIsNotRetired(t *testing.T) {
	f := newFleet()
	v := promotions(t, f, true, false, false, false, false)
	for i, version := range v[1:] {
		m := f.models[version]
		m.Created = time.Unix(int64(i), 0)
		f.models[version] = m
	}
	p := &process{fleet: f}
	require.NoError(t, retire(t.Context(), p, p, 1))
	require.True(t, f.files[v[1]], "the anchor")
	require.False(t, f.files[v[2]])
}

// A version that is promoted by hand is the anchor, so that a choice against the
// metrics does not cause only rejections.
func TestPromotionByHandMovesTheAnchor(t *testing.T) {
	f := newFleet()
	v := promotions(t, f, true, true, false)
	p := &process{fleet: f}
	o := Operator{Models: p, Currents: p, Statuses: p, Journal: p}
	back, err := o.Rollback(t.Context(), "eve", "")
	require.NoError(t, err)
	require.Equal(t, v[2], back.Anchor)
	chosen, err := o.Promote(t.Context(), v[1], "eve", "")
	require.NoError(t, err)
	require.Equal(t, v[1], chosen.Anchor)
}

// A value that an older release wrote has no anchor; the current version is used.
func TestAnchorOfAnOlderRelease(t *testing.T) {
	f := newFleet()
	require.Empty(t, f.current.Anchor)
	promotions(t, f, false)
	require.Equal(t, "base-1", f.current.Anchor)
}

// Without the files of the anchor, as after a change of --model, training
// continues.
func TestAnchorThatIsLost(t *testing.T) {
	f := newFleet()
	f.current.Anchor, f.lost = "gone", "gone"
	promotions(t, f, true)
	require.Empty(t, f.judged[0].Anchor)
	require.Equal(t, f.current.Version, f.current.Anchor)
}

// A frozen hold-out that is too small, as when the minimum was raised, keeps its
// labels and gets the oldest additional ones: a flood of wrong labels does not
// unfreeze it.
func TestSmallFrozenHoldoutIsToppedUp(t *testing.T) {
	f := newFleet()
	f.label(0, 200)
	f.frozen = map[feedback.Hash]feedback.Labels{}
	var held []feedback.Bag
	for b := range f.index.Bags(testSplit()) {
		if b.HeldOut {
			held = append(held, b)
		}
	}
	require.Greater(t, len(held), 30)
	for _, b := range held[:4] { // frozen by a release with a lower minimum, partly wrong now
		f.frozen[b.ID] = feedback.Labels{Whole: labelOf(!b.Violation)}
	}
	f.label(1000, 400) // new ones
	p := &process{fleet: f, t: t, died: func() {}}
	policy := testPolicy()
	policy.MinHeldOut = 10
	l := NewLoop(Config{Dir: t.TempDir()}, policy, Parts{p, p, p, p, p, p, p, p, p, nil}, zerolog.Nop())
	status := Status{Phase: PhaseCollecting, ID: "x", Through: f.index.Last(), Base: "base-1"}
	tr := &trainingRun{Loop: l, id: "x", lease: &lease{store: p, now: time.Now, ttl: time.Minute, status: status}}
	sel, err := tr.choose(t.Context(), status, &job{})
	require.NoError(t, err)

	want := map[feedback.Hash]feedback.Labels{}
	have := map[bool]int{}
	for i, b := range held {
		if i < 4 {
			want[b.ID] = feedback.Labels{Whole: labelOf(!b.Violation)}
			have[!b.Violation]++
		}
	}
	for _, b := range held[4:] {
		if have[b.Violation] < 10 {
			want[b.ID] = feedback.Labels{Whole: labelOf(b.Violation)}
			have[b.Violation]++
		}
	}
	require.Len(t, want, 20)
	require.Equal(t, want, sel.holdout)
}
