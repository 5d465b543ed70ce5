package segmenter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// maxCost is the maximum work for a text, in bytes read per byte of it. The largest
// cost that the searches in this file and the fuzzer found is less than half of it. A
// rule that reads a part of the text again at each terminator exceeds it within a few
// kilobytes, on any machine.
const maxCost = 100

// costUnits are repeated and combined. Each triggers a rule that inspects its
// surroundings, or is text that a rule scans.
var costUnits = []string{
	// Text that rules scan.
	" ", "\t", "\u00a0", "\u3000", "\u2003", "\r", "a", "A", "ж", "é", "\u0301", "\xff", "0", "'", "’", "(", ")", "]", "\"", "“", "”", "—",
	// Triggers of rules.
	".", "...", "…", "。", "」", ";", ":", ": ", "! ", "? ", "x! y ", "\"! ", "!\"", "`", "*", "_", "~", "#", "- ", "-- ", "--a ", "--- ",
	"mr. ", "Mr. ", "e.g. ", "a.m. ", "No. ", "St. ", "U.S. ", "ж.", "é.I'", "1. ", "3.", " 4 The", "The ",
	"[1]", "[.]", "[.] ", "[!]", "![", "¹", ":)", "<3 ", "🎉", "<p>", "</p>", "http://a ", "1/1/00 10:00:00 ", " — A",
	"A: ", "From: a@b ", "@", "Thanks, ", "He said \"a! ", "b\" c",
	// Lines.
	"\n", "a\n", "  \n", "|", "a|b\n", "-|-\n", "---\n", "> ", "    a=1;\n", "```\n", "~~~\n", "$$\n", "User: ",
}

// cost returns the work for text, in bytes read per byte of it, without a constant, so
// that short texts do not count.
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
		t.Fatalf("%.60q... and so on to %d bytes: %.0f bytes are read per byte, want at most %d", text, len(text), c, maxCost)
	}
	return c
}

// run repeats unit to about size bytes.
func run(unit string, size int) string { return strings.Repeat(unit, max(1, size/len(unit))) }

// TestCostOfPairs combines each pair of units: a run of one and a run of the other, at
// the start of a text and after a sentence; both alternating; and runs of one between
// single ones of the other. With -short it uses a sample.
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

// TestCostOfTriples combines all triples of units; skipped with -short.
func TestCostOfTriples(t *testing.T) {
	const size = 1 << 11
	worst := worstOf{}
	n := len(costUnits)
	for i := range n * n * n {
		if testing.Short() && i%4999 != 0 || i%5 != 0 {
			continue // a fifth of them has each pair of positions many times
		}
		a, b, c := costUnits[i/n/n], costUnits[i/n%n], costUnits[i%n]
		worst.add(checkCost(t, "End."+run(a, size)+run(b, size)+run(c, size)), a, b, c)
		worst.add(checkCost(t, run(a, size)+run(b+c, 2*size)), a, b, c)
	}
	t.Log(worst)
}

// TestCostBySearch is a hill climb: it changes the most expensive texts at random and
// keeps the changes that increase the cost.
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

// mutated changes a list of units at one position.
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

// FuzzSegmentCost searches for texts with a higher cost per byte. The fuzzer keeps inputs
// that reach new code, so each level of the cost has its own branch.
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

// worstOf stores the units with the highest cost.
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
