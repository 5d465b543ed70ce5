package segmenter

import (
	"strings"
	"testing"
)

const answer = `## Choosing a bicycle

Thanks for asking! There are **three** things to weigh, e.g. weight, price and
comfort. Dr. Ames (of the U.S. cycling board) wrote that "fit beats brand." I
agree with her; version 2.1 of her guide is at https://example.org/fit?id=3.

1. Measure your inseam. It takes a minute.
2. Ride it first... then decide!

| Kind | Price |
|------|-------|
| Road | $900 |

` + "```sh\nbike --size 54 # done.\n```\n\n"

func benchmark(b *testing.B, unit string) {
	text := strings.Repeat(unit, 1<<20/len(unit)+1)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if len(segment(text)) == 0 {
			b.Fatal("no spans")
		}
	}
}

func BenchmarkSegment(b *testing.B) {
	for _, c := range []struct{ name, unit string }{
		{"answer", answer},
		{"prose", "The committee met on Monday to weigh the plan. Most members, as expected, had doubts about its cost. "},
		{"chat", "hey are you there? i was thinking we could go. what do u say\n"},
		{"chinese", "今天天气很好，我们打算去公园散步。你想一起来吗？"},
		{"hindi", "यह एक छोटा वाक्य है। क्या तुम आओगे? "},
		{"russian", "Комитет собрался в понедельник. У многих были сомнения. "},
	} {
		b.Run(c.name, func(b *testing.B) { benchmark(b, c.unit) })
	}
}

// BenchmarkHostile has texts that are slow for scanners with unbounded lookaround.
func BenchmarkHostile(b *testing.B) {
	for _, c := range hostile {
		b.Run(c.name, func(b *testing.B) { benchmark(b, c.unit) })
	}
}
