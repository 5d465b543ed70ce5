package encoder

import "testing"

// TestBatchesComeInFewSizes checks that packed.round bounds memory, which must not grow with every new number of rows.
func TestBatchesComeInFewSizes(t *testing.T) {
	sizes, padding, rows := map[int]bool{}, 0, 0
	if size := roundUp(1); size != minRows {
		t.Errorf("1 row became %d", size)
	}
	for n := minRows; n <= 2048; n++ {
		size := roundUp(n)
		if size < n || n <= 8 && size != n || float64(size) > 1.25*float64(n) {
			t.Fatalf("%d rows became %d", n, size)
		}
		sizes[size] = true
		padding, rows = padding+size-n, rows+n
	}
	if len(sizes) > 8+4*8 {
		t.Errorf("batches of up to 2048 rows come in %d sizes", len(sizes))
	}
	if share := float64(padding) / float64(rows); share > 0.1 {
		t.Errorf("%.3f of the rows are padding", share)
	}
}
