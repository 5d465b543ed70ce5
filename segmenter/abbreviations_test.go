package segmenter

import (
	"strings"
	"testing"
)

// TestOneRole checks that no two roles list the same word: its role would differ
// between processes.
func TestOneRole(t *testing.T) {
	listed := make(map[string]role)
	for r, list := range roleWords {
		for w := range strings.FieldsSeq(list) {
			if other, twice := listed[w]; twice {
				t.Errorf("%q has the roles %d and %d", w, other, r)
			}
			listed[w] = r
		}
	}
}
