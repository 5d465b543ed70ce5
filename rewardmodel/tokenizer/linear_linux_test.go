package tokenizer

import (
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// threadTime returns the CPU time of this thread, which does not depend on the load of the machine.
func threadTime(t *testing.T) time.Duration {
	var used unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_THREAD, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// TestLinear encodes long words: sixteen times the text must not take much more
// than sixteen times as long (a quadratic algorithm takes 256 times as long).
func TestLinear(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	seeds := map[string]string{
		"letters": "supercalifragilistic", "one letter": "a", "marks": "a\u0323\u0301\u0316", "spaces": " ", "punctuation": "-=",
		"invalid": "\x80", "Chinese": "你好", "apostrophes": "'", "lines": "\n ", "jamo": "\u1100\u1161\u11a8", "only marks": "\u0301\u0323",
	}
	took := func(tok *Tokenizer, text string, times int) time.Duration {
		best := time.Duration(math.MaxInt64)
		for range times {
			start := threadTime(t)
			tok.Encode(text)
			best = min(best, threadTime(t)-start)
		}
		return best
	}
	for name, tok := range map[string]*Tokenizer{
		"bpe": load(t, "bpe"), "wordpiece": load(t, "wordpiece"),
		"unigram": loadFiles(t, map[string]string{spmFile: string(spmBytes(t)), configFile: `{"split_by_punct":true}`}),
	} {
		for kind, seed := range seeds {
			small := took(tok, strings.Repeat(seed, 1<<14/len(seed)), 4)
			text := strings.Repeat(seed, 1<<18/len(seed))
			slow := func(large time.Duration) bool { return large > 100*small && large > time.Second }
			large := took(tok, text, 1)
			if slow(large) { // or the machine was busy with something else
				large = took(tok, text, 4)
			}
			if slow(large) {
				t.Errorf("%s, %s: 256 KB took %v, 16 KB took %v", name, kind, large, small)
			}
		}
	}
}
