package segmenter

import (
	"iter"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns the CPU time of this thread, which does not depend on the load of
// the machine.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// steps yields the positions below n at a distance.
func steps(n, distance int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for at := 0; at < n && yield(at); at += distance {
		}
	}
}

// TestTimePerMegabyte limits the time for the texts that were or are the slowest. The
// limit has a margin for the race detector and a slow machine; the texts took
// minutes when rules read the start of a sentence at each terminator.
func TestTimePerMegabyte(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	size := 1 << 20
	if testing.Short() {
		size >>= 2
	}
	most := 3 * time.Second * time.Duration(size) / (1 << 20)
	half := func(lead, first, second string) string { return lead + run(first, size/2) + run(second, size/2) }
	for name, text := range map[string]string{
		"spaces, titles":        half("It is the end.", " ", "mr. "),
		"spaces, dashes":        half("It is the end.", " ", "--a "),
		"no-break spaces":       half("It is the end.", "\u00a0", "mr. "),
		"wide spaces":           half("It is the end.", "\u3000", "--a "),
		"terminators in marks":  half("a", "[.]", "[.]"),
		"marks, spaces":         half("End", "[.]", " ") + "a",
		"marks between spaces":  half("End. ", "[.]"+strings.Repeat("\u3000", 200), "[.] "),
		"glued words":           half("", "é.I'", "é.I'"),
		"exclamations":          half("", "! ", "? "),
		"quoted":                half("", "\"! ", "\"! "),
		"initials":              half("", "A. ", "1. "),
		"lines":                 half("", "a\n", "|\n"),
		"an open line of pipes": half("|", "a ", "- "),
		"an open quote":         half("", "> ", "> "),
		"a terminator, spaces":  half("End.", " ", "\u3000"),
		"terminators":           half("End", ".", ")"),
		"an open fence":         half("```\n", "a", "b\n"),
	} {
		for how, split := range map[string]func(){
			"whole":     func() { segment(text) },
			"in pieces": func() { streamed(t, text, slices.Collect(steps(len(text), 5))) },
			"by byte":   func() { streamed(t, text[:len(text)/4], slices.Collect(steps(len(text)/4, 1))) },
		} {
			var took time.Duration
			for range 3 { // other processes can disturb one
				start := threadTime(t)
				split()
				if took = threadTime(t) - start; took <= most {
					break
				}
			}
			t.Logf("%s, %s: %v", name, how, took)
			if took > most {
				t.Errorf("%s, %s: %d bytes took %v, want at most %v", name, how, len(text), took, most)
			}
		}
	}
}
