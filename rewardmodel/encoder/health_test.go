package encoder

import (
	"errors"
	"testing"
	"time"

	"assay/rewardmodel"
)

// A model is broken when it has failed for some time on what it computed before, and on everything in between.
func TestHealth(t *testing.T) {
	type call struct {
		at     time.Duration
		result string // of the batch: "ok"; "text": the model fails on it alone; "all": it fails on everything
	}
	const s = time.Second
	for name, test := range map[string]struct {
		calls  []call
		broken bool
	}{
		"fails on everything":            {[]call{{0, "ok"}, {1 * s, "all"}, {3 * s, "all"}, {6 * s, "all"}}, true},
		"not for long enough":            {[]call{{0, "ok"}, {1 * s, "all"}, {5 * s, "all"}}, false},
		"has never computed anything":    {[]call{{0, "all"}, {9 * s, "all"}}, false},
		"fails on a text":                {[]call{{0, "ok"}, {1 * s, "text"}, {9 * s, "text"}}, false},
		"recovers in between":            {[]call{{0, "ok"}, {1 * s, "all"}, {3 * s, "ok"}, {7 * s, "all"}}, false},
		"fails only on a text meanwhile": {[]call{{0, "ok"}, {1 * s, "all"}, {3 * s, "text"}, {7 * s, "all"}}, false},
		"fails again for long":           {[]call{{0, "ok"}, {1 * s, "all"}, {3 * s, "ok"}, {7 * s, "all"}, {12 * s, "all"}}, true},
	} {
		var h health
		var broken error
		start := time.Now()
		for _, c := range test.calls {
			if c.result == "ok" {
				h.succeeded([]rewardmodel.Sequence{{IDs: []int32{0, 5, 2}}, {IDs: []int32{0, 6, 2}}})
				continue
			}
			broken = h.failed(start.Add(c.at), func(known []rewardmodel.Sequence) error {
				if len(known) != 1 || known[0].IDs[1] != 5 {
					t.Errorf("%s: verifies %v", name, known)
				}
				if c.result == "all" {
					return errors.New("NaN")
				}
				return nil
			})
		}
		if (broken != nil) != test.broken {
			t.Errorf("%s: %v", name, broken)
		}
	}
}
