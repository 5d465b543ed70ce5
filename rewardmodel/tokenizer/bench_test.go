package tokenizer

import (
	"strings"
	"testing"
)

// prose returns English sentences of a few hundred different words.
func prose() string {
	var b strings.Builder
	for i := range 400 {
		for j, word := range strings.Fields(proseWords) {
			if (i*7+j*j)%5 < 2 {
				b.WriteString(word)
				b.WriteString(" ")
			}
		}
		b.WriteString("\n\n")
	}
	return b.String()
}

const proseWords = `Of course! The committee didn't publish its findings until Thursday, because three of the
authors (who had been travelling) weren't available; nevertheless, most readers agreed that the conclusion was
sound. "It's a matter of judgement," she said, "and I'd rather be careful than sorry." Meanwhile, 1,250 people
signed the petition within 24 hours -- an extraordinary number for a town of that size. Nobody expected the
neighbouring villages to object, yet they did, citing noise, traffic and the price of housing. What happens next
is uncertain: the council may postpone its decision, ask for another assessment, or simply give up.`

func benchmark(b *testing.B, tok *Tokenizer, text string) {
	tokens := len(tok.IDs(text))
	b.Run("IDs", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			tok.IDs(text)
		}
		b.ReportMetric(float64(tokens)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mtokens/s")
	})
	b.Run("Encode", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			tok.Encode(text)
		}
		b.ReportMetric(float64(tokens)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mtokens/s")
	})
}

func BenchmarkByteLevel(b *testing.B) { benchmark(b, load(b, "bpe"), prose()) }
func BenchmarkWordPiece(b *testing.B) { benchmark(b, load(b, "wordpiece"), prose()) }
func BenchmarkRoberta(b *testing.B)   { benchmark(b, roberta(b), prose()) }

// BenchmarkLongWord encodes one word of a megabyte.
func BenchmarkLongWord(b *testing.B) {
	word := strings.Repeat("supercalifragilistic", 1<<20/20)
	for _, name := range []string{"bpe", "wordpiece"} {
		tok := load(b, name)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(word)))
			for b.Loop() {
				tok.IDs(word)
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	for _, name := range []string{"bpe", "bpe_json", "wordpiece"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				load(b, name)
			}
		})
	}
}
