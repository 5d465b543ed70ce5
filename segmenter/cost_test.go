package segmenter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// maxCost bounds the work for a text, in bytes looked at per byte of it. The
// worst that the searches of this file and the fuzzer found is below a half of
// it; a rule that reads a part of the text at each terminator again is beyond it
// in a few kilobytes, on any machine.
const maxCost = 100

// costUnits are repeated and combined. Each makes some rule look around, or is
// what a rule reads over.
var costUnits = []string{
	// What rules read over.
	" ", "\t", "\u00a0", "\u3000", "\u2003", "\r", "a", "A", "ж", "é", "\u0301", "\xff", "0", "'", "’", "(", ")", "]", "\"", "“", "”", "—",
	// Where rules look around.
	".", "...", "…", "。", "」", ";", ":", ": ", "! ", "? ", "x! y ", "\"! ", "!\"", "`", "*", "_", "~", "#", "- ", "-- ", "--a ", "--- ",
	"mr. ", "Mr. ", "e.g. ", "a.m. ", "No. ", "St. ", "U.S. ", "ж.", "é.I'", "1. ", "3.", " 4 The", "The ",
	"[1]", "[.]", "[.] ", "[!]", "![", "¹", ":)", "<3 ", "🎉", "<p>", "</p>", "http://a ", "1/1/00 10:00:00 ", " — A",
	"A: ", "From: a@b ", "@", "Thanks, ", "He said \"a! ", "b\" c",
	// Lines.
	"\n", "a\n", "  \n", "|", "a|b\n", "-|-\n", "---\n", "> ", "    a=1;\n", "```\n", "~~~\n", "$$\n", "User: ",
}

// cost returns the work for text, in bytes looked at per byte of it. A constant
// is free, so that short texts do not count.
func cost(t testing.TB, text string) float64 {
	s := newScanner(context.Background(), text)
	s.blocks()
	if _, err := s.result(); err != nil {
		t.Fatal(err)
	}
	const free = 1 << 10
	return float64(max(0, s.bytes-free)) / float64(len(text)+1)
}

func checkCost(t testing.TB, text string) float64 {
	c := cost(t, text)
	if c > maxCost {
		t.Fatalf("%.60q... and so on to %d bytes: %.0f bytes are looked at per byte, want at most %d", text, len(text), c, maxCost)
	}
	return c
}

// run repeats unit to about size bytes.
func run(unit string, size int) string { return strings.Repeat(unit, max(1, size/len(unit))) }

// TestCostOfPairs combines each two units: a run of one and a run of the other,
// at the start of a text and after a sentence; both in turn; and many of one
// between single ones of the other. A short run takes a sample.
func TestCostOfPairs(t *testing.T) {
	const size = 1 << 13
	worst := worstOf{}
	for i, a := range costUnits {
		for k, b := range costUnits {
			if testing.Short() && (i*len(costUnits)+k)%48 != 0 {
				continue
			}
			for _, text := range []string{
				run(a, size) + run(b, size),
				"It is the end." + run(a, size) + run(b, size),
				run(a+b, size),
				run(run(a, 24)+b, size),
				run(run(a, 160)+run(b, 80), size),
			} {
				worst.add(checkCost(t, text), a, b)
			}
		}
	}
	t.Log(worst)
}

// TestCostOfTriples combines each three units, in a long run only.
func TestCostOfTriples(t *testing.T) {
	const size = 1 << 11
	worst := worstOf{}
	n := len(costUnits)
	for i := range n * n * n {
		if testing.Short() && i%4999 != 0 || i%5 != 0 {
			continue // a fifth holds each pair of places of a triple many times
		}
		a, b, c := costUnits[i/n/n], costUnits[i/n%n], costUnits[i%n]
		worst.add(checkCost(t, "End."+run(a, size)+run(b, size)+run(c, size)), a, b, c)
		worst.add(checkCost(t, run(a, size)+run(b+c, 2*size)), a, b, c)
	}
	t.Log(worst)
}

// TestCostBySearch climbs: it changes the worst texts so far at random and keeps
// what makes them worse.
func TestCostBySearch(t *testing.T) {
	rounds := 20_000
	if testing.Short() {
		rounds = 500
	}
	rng := rand.New(rand.NewPCG(7, 7))
	worst := worstOf{}
	for range 8 {
		var best []string
		reached := -1.0
		for range rounds / 8 {
			next := mutated(rng, best)
			lead, unit := strings.Join(next[:len(next)/3], ""), strings.Join(next[len(next)/3:], "")
			text := lead + run(unit, 1<<12)
			if c := checkCost(t, text); c >= reached {
				best, reached = next, c
			}
		}
		worst.add(reached, best...)
	}
	t.Log(worst)
}

// mutated changes a list of units in one place.
func mutated(rng *rand.Rand, units []string) []string {
	next := append([]string(nil), units...)
	at := rng.IntN(len(next) + 1)
	unit := costUnits[rng.IntN(len(costUnits))]
	if rng.IntN(4) == 0 {
		unit = run(unit, 1<<rng.IntN(9))
	}
	switch p := rng.IntN(4); {
	case len(next) == 0 || len(next) < 24 && p < 2:
		return append(next[:at], append([]string{unit}, next[at:]...)...)
	case p == 2 && at < len(next):
		next[at] = unit
	case at < len(next) && len(next) > 1:
		next = append(next[:at], next[at+1:]...)
	}
	return next
}

// FuzzSegmentCost looks for texts that cost more per byte. The fuzzer keeps the
// inputs that reach new code, and each level of the cost is code of its own.
func FuzzSegmentCost(f *testing.F) {
	f.Add("It is the end.", " ", "mr. ")
	f.Add("It is the end.", "\u3000", "--a ")
	f.Add("a", "[.]", "[.]")
	f.Add("é", "é.I'", "é.I'")
	f.Add("He said", " \"a! ", "b\" c")
	f.Fuzz(func(t *testing.T, lead, first, second string) {
		if len(lead)+len(first)+len(second) > 1<<9 || first == "" || second == "" {
			return
		}
		const size = 1 << 12
		for _, text := range []string{lead + run(first, size) + run(second, size), lead + run(first+second, size)} {
			climb(t, checkCost(t, text))
		}
	})
}

// climb has a branch for each level of the cost.
func climb(t *testing.T, c float64) {
	switch {
	case c > 140:
		t.Log("over 140")
	case c > 120:
		t.Log("over 120")
	case c > 100:
		t.Log("over 100")
	case c > 90:
		t.Log("over 90")
	case c > 80:
		t.Log("over 80")
	case c > 72:
		t.Log("over 72")
	case c > 64:
		t.Log("over 64")
	case c > 56:
		t.Log("over 56")
	case c > 48:
		t.Log("over 48")
	case c > 40:
		t.Log("over 40")
	case c > 32:
		t.Log("over 32")
	case c > 24:
		t.Log("over 24")
	case c > 16:
		t.Log("over 16")
	}
}

// worstOf remembers the units with the highest cost.
type worstOf struct {
	cost  float64
	units []string
}

func (w *worstOf) add(cost float64, units ...string) {
	if cost > w.cost {
		*w = worstOf{cost, units}
	}
}

func (w worstOf) String() string {
	return fmt.Sprintf("at worst %.1f per byte, by %q", w.cost, w.units)
}
