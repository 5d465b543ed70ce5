package labels

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
)

// Headers keep the labels of aspects. An earlier release, which reads HeaderLabel
// only, sees the verdict.
func TestHeadersKeepTheLabels(t *testing.T) {
	aspects := map[string]bag.Label{"toxicity": bag.Violation, "refusal": bag.Compliant, "x": bag.Compliant}
	for name, c := range map[string]struct {
		labels   feedback.Labels
		prompted bool
		verdict  string
		headers  int
	}{
		"of the whole response": {feedback.Labels{Whole: bag.Violation}, false, "violation", 3},
		"with a prompt":         {feedback.Labels{Whole: bag.Violation}, true, "violation", 4},
		"of aspects":            {feedback.Labels{Aspects: aspects}, false, "violation", 6},
		"of both":               {feedback.Labels{Whole: bag.Compliant, Aspects: aspects}, false, "compliant", 5},
		"of a compliant aspect": {feedback.Labels{Aspects: map[string]bag.Label{"x": bag.Compliant}}, false, "compliant", 5},
	} {
		t.Run(name, func(t *testing.T) {
			mark := feedback.Mark{ID: feedback.HashOf("a"), Rater: feedback.HashOf("r"), Text: feedback.HashOf("t"), Labels: c.labels, Prompted: c.prompted, Sender: feedback.HashOf("token"), Sequence: 3}
			header := nats.Header{}
			setMark(header, mark)
			require.Len(t, header, c.headers)
			require.Equal(t, c.verdict, header.Get(HeaderLabel))
			got, err := readMark(recordSubject(mark.ID, mark.Rater), header, 3)
			require.NoError(t, err)
			require.Equal(t, mark, got)
		})
	}
	// A record of an earlier release.
	got, err := readLabels(nats.Header{HeaderLabel: {"violation"}})
	require.NoError(t, err)
	require.Equal(t, feedback.Labels{Whole: bag.Violation}, got)
	for name, header := range map[string]nats.Header{
		"no label":                 {HeaderComplied: {"x"}},
		"an invalid name":          {HeaderLabel: {"compliant"}, HeaderComplied: {"X"}},
		"an unknown scope":         {HeaderLabel: {"compliant"}, HeaderScope: {"y"}, HeaderComplied: {"x"}},
		"both labels of an aspect": {HeaderLabel: {"violation"}, HeaderViolated: {"x"}, HeaderComplied: {"x"}},
		"a scope without aspects":  {HeaderLabel: {"compliant"}, HeaderScope: {"aspects"}},
	} {
		_, err := readLabels(header)
		require.Error(t, err, name)
	}
}

// FuzzReadMark reads arbitrary headers: accepted ones have one meaning, which is the
// same when they are written and read again.
func FuzzReadMark(f *testing.F) {
	id, rater, text := feedback.HashOf("a"), feedback.HashOf("r"), feedback.HashOf("t")
	subject := recordSubject(id, rater)
	f.Add(subject, "violation", text.String(), "2026-01-02T03:04:05.6+07:00", id.String(), rater.String(), "toxicity", "refusal,x", "aspects")
	f.Add(subject, "withdrawn", text.String(), "", "", "", "", "", "")
	f.Add(subject+".x", "compliant", "", "0000-01-01T00:00:00Z", "x", "", ",", "X", "y")
	f.Add(subject, "violation", text.String(), "", "", "y", "x", "x", "aspects")
	f.Fuzz(func(t *testing.T, subject, label, text, at, group, sender, violated, complied, scope string) {
		header := nats.Header{}
		for name, value := range map[string]string{
			HeaderLabel: label, HeaderText: text, HeaderTime: at, HeaderGroup: group, HeaderSender: sender, HeaderViolated: violated, HeaderComplied: complied, HeaderScope: scope,
		} {
			if value != "" {
				header.Set(name, value)
			}
		}
		mark, err := readMark(subject, header, 3)
		if err != nil {
			return
		}
		for range 4 { // maps are read in any order
			again, err := readMark(subject, header, 3)
			require.NoError(t, err)
			require.Equal(t, mark, again)
		}
		written := nats.Header{}
		setMark(written, mark)
		got, err := readMark(recordSubject(mark.ID, mark.Rater), written, 3)
		require.NoError(t, err, "%v", written)
		if mark.Time != nil {
			require.True(t, mark.Time.Equal(*got.Time), "%v and %v", mark.Time, got.Time)
			got.Time = mark.Time
		}
		require.Equal(t, mark, got)
	})
}
