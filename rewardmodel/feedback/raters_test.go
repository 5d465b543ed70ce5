package feedback_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/assay-ai/assay/rewardmodel/feedback"
)

// rateMany is the least time, of some attempts, that an index takes to judge and
// apply the labels of so many raters of one response.
func rateMany(raters int) time.Duration {
	least := time.Hour
	for range 5 {
		x := feedback.NewIndex()
		id := feedback.HashOf("one")
		start := time.Now()
		for i := range raters {
			var r feedback.Hash
			binary.BigEndian.PutUint64(r[:], uint64(i))
			m := feedback.Mark{ID: id, Rater: r, Sequence: uint64(i + 1)}
			x.Judge(m)
			x.Apply(m)
		}
		least = min(least, time.Since(start))
	}
	return least
}

// The time for a label does not grow with the number of raters of its response.
// With a search through all of them, a label took twenty times as long at
// 20,000 raters as at 1,000.
func TestTimeIsLinearInRaters(t *testing.T) {
	const few, many = 1000, 20_000
	a, b := rateMany(few)/few, rateMany(many)/many
	t.Logf("per label: %v of %d raters, %v of %d", a, few, b, many)
	if b > 6*a {
		t.Errorf("a label takes %v with %d raters and %v with %d", a, few, b, many)
	}
}
