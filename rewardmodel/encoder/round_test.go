package encoder

import "testing"

// TestBatchesComeInFewSizes holds the promise of packed.round: memory does not grow with every new number of rows.
func TestBatchesComeInFewSizes(t *testing.T) {
	sizes, filler, rows := map[int]bool{}, 0, 0
	for n := 1; n <= 2048; n++ {
		size := roundUp(n)
		if size < n || n <= 32 && size != n || float64(size) > 1.0625*float64(n) {
			t.Fatalf("%d rows became %d", n, size)
		}
		sizes[size] = true
		filler, rows = filler+size-n, rows+n
	}
	if len(sizes) > 32+16*6 {
		t.Errorf("batches of up to 2048 rows come in %d sizes", len(sizes))
	}
	if share := float64(filler) / float64(rows); share > 0.03 {
		t.Errorf("%.3f of the rows stand for nothing", share)
	}
}
