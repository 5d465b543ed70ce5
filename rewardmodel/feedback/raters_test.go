package feedback_test

import (
	"encoding/binary"
	"testing"
	"time"

	"assay/rewardmodel/feedback"
)

// rateMany returns the time per label that an index takes to check and apply the
// labels of that many raters of one response.
func rateMany(raters int) time.Duration {
	x := feedback.NewIndex()
	id := feedback.HashOf("one")
	start := time.Now()
	for i := range raters {
		var r feedback.Hash
		binary.BigEndian.PutUint64(r[:], uint64(i))
		m := feedback.Mark{ID: id, Rater: r, Sequence: uint64(i + 1)}
		x.Check(m)
		x.Apply(m)
	}
	return time.Since(start) / time.Duration(raters)
}

// The time per label does not grow with the number of raters of its response.
// With a search through all of them, a label took twenty times as long at
// 20,000 raters as at 1,000. Other processes disturb the longer run
// more, so the minimum time of each is used.
func TestTimeIsLinearInRaters(t *testing.T) {
	const few, many, attempts = 1000, 20_000, 50
	a, b := time.Hour, time.Hour
	for range attempts {
		a, b = min(a, rateMany(few)), min(b, rateMany(many))
		if b <= 6*a && a < time.Hour {
			return
		}
	}
	t.Errorf("a label takes %v with %d raters and %v with %d", a, few, b, many)
}
