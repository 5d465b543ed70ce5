package labels_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/queue/internal/jstest"
	"assay/queue/labels"
	"assay/queue/labels/labelstest"
	"assay/queue/queuetest"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
)

// exported fills a log and returns its export.
func exported(t *testing.T) (f *labels.Log, file []byte) {
	t.Helper()
	f = queuetest.Open(t, queuetest.Config(t)).Labels()
	labelstest.Accepts(t, f, 40, 0, labelstest.Some(0, 40)...)
	labelstest.Accepts(t, f, 2, 0, labelstest.Labeled("r1", bag.Violation),
		bag.Bag{ID: "r2", Label: bag.Violation, Response: "The text of r2.", Rater: "ann"})
	_, err := f.Withdraw(t.Context(), "r3", "", "")
	require.NoError(t, err)
	_, err = f.Erase(t.Context(), "r4")
	require.NoError(t, err)
	var out bytes.Buffer
	v, err := f.Export(jstest.Context(t), &out)
	require.NoError(t, err)
	require.Zero(t, v.DamagedCount)
	require.Equal(t, []int{39, 1, 1}, []int{v.Labels, v.Withdrawn, v.Erasures})
	require.NotContains(t, out.String(), "The text of r3.", "withdrawn")
	require.NotContains(t, out.String(), "The text of r4.", "erased")
	return f, out.Bytes()
}

// contents are the records by id and rater, without their sequences, which differ
// between servers.
func contents(t *testing.T, f *labels.Log) map[string]feedback.Record {
	t.Helper()
	out := map[string]feedback.Record{}
	for key, r := range labelstest.Records(t, f) {
		out[key] = r.Record
	}
	return out
}

func TestMoveToAnotherServer(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	from, file := exported(t)
	to := queuetest.Open(t, queuetest.Config(t)).Labels()
	labelstest.Accepts(t, to, 1, 0, labelstest.Labeled("r4", bag.Violation)) // is erased by the import

	imported, err := to.Import(ctx, bytes.NewReader(file))
	require.NoError(t, err)
	require.Equal(t, feedback.Imported{Imported: 40, Erasures: 1}, imported)
	require.Equal(t, contents(t, from), contents(t, to))
	require.True(t, to.Index().Erased(feedback.HashOf("r4")))
	withdrawn, err := to.LabelsOf(ctx, "r3")
	require.NoError(t, err)
	require.Empty(t, withdrawn.Labels)
	salted := feedback.Split{Share: 0.5, Salt: []byte("salt")}
	sides := func(f *labels.Log) map[feedback.Hash]bool {
		held := map[feedback.Hash]bool{}
		for b := range f.Index().Bags(salted) {
			held[b.ID] = b.HeldOut
		}
		return held
	}
	require.Equal(t, sides(from), sides(to), "the hold-out is the same with the same salt")

	again, err := to.Import(ctx, bytes.NewReader(file))
	require.NoError(t, err)
	require.Equal(t, feedback.Imported{Duplicates: 41}, again)
	v, err := to.Verify(ctx)
	require.NoError(t, err)
	require.Equal(t, []int{39, 0, 0}, []int{v.Labels, v.Unverified, v.DamagedCount})
}

// An import of an earlier export undoes no correction and no withdrawal of a label
// without a time.
func TestImportKeepsWhatIsNewer(t *testing.T) {
	t.Parallel()
	f, file := exported(t)
	labelstest.Accepts(t, f, 1, 0, labelstest.Labeled("r5", bag.Violation)) // was bag.Compliant
	records, err := f.Withdraw(t.Context(), "r6", "", "")
	require.NoError(t, err)
	require.Equal(t, 1, records)
	want := labelstest.Records(t, f)

	imported, err := f.Import(jstest.Context(t), bytes.NewReader(file))
	require.NoError(t, err)
	require.Equal(t, feedback.Imported{Duplicates: 41}, imported)
	require.Equal(t, want, labelstest.Records(t, f))
	withdrawn, err := f.LabelsOf(t.Context(), "r6")
	require.NoError(t, err)
	require.Empty(t, withdrawn.Labels)
}

// An import refuses a file that differs in any way, and stores nothing of it.
func TestImportRefusesADamagedFile(t *testing.T) {
	t.Parallel()
	_, file := exported(t)
	to := queuetest.Open(t, queuetest.Config(t)).Labels()
	lines := strings.SplitAfter(string(file), "\n")
	join := func(lines ...string) string { return strings.Join(lines, "") }
	for name, c := range map[string]struct{ file, message string }{
		"a flipped bit":       {join(lines[0], strings.Replace(lines[1], "Assay-Label", "Assay-Lacel", 1), join(lines[2:]...)), "line 2: its checksum differs"},
		"cut off":             {join(lines[:20]...), "line 21: the file is cut off"},
		"cut off in a line":   {string(file[:len(file)/2]), "the file is cut off"},
		"a missing line":      {join(join(lines[:5]...), join(lines[6:]...)), "lines are missing"},
		"lines in disorder":   {join(lines[0], lines[2], lines[1], join(lines[3:]...)), "lines are missing"},
		"text at the end":     {string(file) + "x", "after the trailer"},
		"no export":           {`{"id":"r1"}` + "\n", "line 1"},
		"empty":               {"", "line 1: the file is cut off"},
		"of a later format":   {strings.Replace(string(file), "assay-feedback-1", "assay-feedback-2", 1), "line 1"},
		"a line without JSON": {join(lines[0], "x\n", join(lines[1:]...)), "line 2"},
	} {
		_, err := to.Import(jstest.Context(t), strings.NewReader(c.file))
		require.ErrorIs(t, err, labels.ErrDamagedFile, name)
		require.ErrorContains(t, err, c.message, name)
	}
	require.Empty(t, labelstest.Records(t, to))
}

// The texts of an erased response are overwritten when Erase returns, and not only when
// the server stops or compacts its files.
func TestErasedTextsLeaveTheDisk(t *testing.T) {
	t.Parallel()
	cfg := queuetest.Config(t)
	f := queuetest.Open(t, cfg).Labels()
	const text = "the first secret sentence"
	labelstest.Accepts(t, f, 1, 0, bag.Bag{ID: "erased", Label: bag.Violation, Response: text})
	labelstest.Accepts(t, f, 40, 0, labelstest.Some(0, 40)...)
	require.True(t, jstest.OnDisk(t, cfg.Server.DataDir, text))
	_, err := f.Erase(t.Context(), "erased")
	require.NoError(t, err)
	require.False(t, jstest.OnDisk(t, cfg.Server.DataDir, text))
}
