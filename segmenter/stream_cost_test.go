package segmenter

import (
	"context"
	"strings"
	"testing"
	"unsafe"
)

// maxStreamCost is maxCost for a text that arrives byte by byte, so that decisions are
// made again.
const maxStreamCost = 250

// streamCost returns the work for text fed byte by byte, in bytes read per byte.
func streamCost(t testing.TB, text string) float64 {
	var s Stream
	for i := range len(text) {
		if _, err := s.Feed(context.Background(), text[i:i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	const free = 1 << 10
	return float64(max(0, s.scan.bytes-free)) / float64(len(text)+1)
}

// TestStreamCostOfPairs is TestCostOfPairs for streams of bytes. With -short it uses a
// sample.
func TestStreamCostOfPairs(t *testing.T) {
	const size = 1 << 11
	worst := worstOf{}
	for i, a := range costUnits {
		for k, b := range costUnits {
			if testing.Short() && (i*len(costUnits)+k)%97 != 0 {
				continue
			}
			for _, text := range []string{
				run(a, size) + run(b, size),
				"It is the end." + run(a, size) + run(b, size),
				run(a+b, size),
				run(run(a, 24)+b, size),
				run(run(a, 160)+run(b, 80), size),
			} {
				c := streamCost(t, text)
				if c > maxStreamCost {
					t.Errorf("%.60q... and so on to %d bytes: %.0f bytes are read per byte, want at most %d", text, len(text), c, maxStreamCost)
				}
				worst.add(c, a, b)
			}
		}
	}
	t.Log(worst)
}

// TestStreamMemory feeds megabytes and limits what the stream retains.
func TestStreamMemory(t *testing.T) {
	const size, most = 1 << 20, 32 << 10
	for _, unit := range []string{
		"It was late. ", "It was late.\n", "- one item\n", "| a | b |\n", "> quoted text.\n>\n", "短い文です。",
		"A line of text that an editor has wrapped at about seventy columns. It ends\nat ", "a b\n", "x | y. Z\n", answer,
	} {
		var s Stream
		retained := 0
		piece := strings.Repeat(unit, 1+64/len(unit))
		for range size / len(piece) {
			if _, err := s.Feed(t.Context(), piece); err != nil {
				t.Fatal(err)
			}
			retained = max(retained, s.text.Cap()+int(unsafe.Sizeof(proseLine{}))*cap(s.scan.para.lines)+int(unsafe.Sizeof(Span{}))*cap(s.scan.out))
		}
		if retained > most {
			t.Errorf("%.40q...: %d bytes are retained, want at most %d", unit, retained, most)
		}
	}
}
