package tokenizer

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	library "github.com/sugarme/tokenizer"
	librarynormalizer "github.com/sugarme/tokenizer/normalizer"
	"github.com/sugarme/tokenizer/pretokenizer"
)

// TestLibraryPreTokenizers shows why this package has its own pre-tokenizers: the
// library splits strings of the golden files into other words. When this test
// fails because the two agree, use the library's.
func TestLibraryPreTokenizers(t *testing.T) {
	bpe, wordpiece := load(t, "bpe").model.(*byteLevel), load(t, "wordpiece").model.(*wordPiece)
	alphabet := byteAlphabet()
	pieces := func(s *library.PreTokenizedString, err error) []string {
		require.NoError(t, err)
		var words []string
		for _, piece := range s.GetSplits(librarynormalizer.OriginalTarget, library.Byte) {
			words = append(words, piece.Value)
		}
		return words
	}
	gpt2 := func(text string) (ours, theirs []string) {
		for start := 0; start < len(text); {
			end := bpe.classes.nextWord([]byte(text), start)
			word := ""
			for _, b := range []byte(text[start:end]) {
				word += alphabet[b]
			}
			ours, start = append(ours, word), end
		}
		level := pretokenizer.NewByteLevel()
		level.SetAddPrefixSpace(false)
		return ours, pieces(level.PreTokenize(library.NewPreTokenizedString(text)))
	}
	bert := func(text string) (ours, theirs []string) {
		for words := (&wordReader{normalizer: &wordpiece.norm, text: []byte(text)}); words.next(); {
			ours = append(ours, string(words.word))
		}
		normalized, err := librarynormalizer.NewBertNormalizer(true, true, true, true).Normalize(librarynormalizer.NewNormalizedFrom(text))
		require.NoError(t, err)
		return ours, pieces(pretokenizer.NewBertPreTokenizer().PreTokenize(library.NewPreTokenizedStringFromNS(normalized)))
	}
	for _, c := range []struct {
		name  string
		split func(string) (ours, theirs []string)
		agree []string
		not   []string
	}{
		{"GPT-2", gpt2, []string{"Hello, world's end"}, []string{"a\n\nb", "a\n \nb", " \u00a0a", "\t\t\ta"}},
		{"Bert", bert, []string{"Hello, world's end"}, []string{" \u00a0a", "a\u3000", "\u0378\u00a0x"}},
	} {
		for _, text := range c.agree {
			ours, theirs := c.split(text)
			require.Equal(t, ours, theirs, "%s %q", c.name, text)
		}
		for _, text := range c.not {
			ours, theirs := c.split(text)
			require.False(t, slices.Equal(ours, theirs), "%s %q", c.name, text)
		}
	}
}

// TestByteAlphabet checks the part of the library that this package uses.
func TestByteAlphabet(t *testing.T) {
	seen := make(map[string]bool)
	for b, symbol := range byteAlphabet() {
		require.Len(t, []rune(symbol), 1)
		require.False(t, seen[symbol])
		seen[symbol] = true
		if b > ' ' && b < 0x7f {
			require.Equal(t, string(rune(b)), symbol)
		}
	}
	require.Equal(t, "Ġ", byteAlphabet()[' '])
}
