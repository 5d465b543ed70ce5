package segmenter

import (
	"testing"
	"unicode"
	"unicode/utf8"
)

// TestSpaces compares the tables in the code with those of package unicode.
func TestSpaces(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		space := wideSpace(r)
		if r < utf8.RuneSelf {
			space = asciiSpace(byte(r))
		}
		if space != unicode.IsSpace(r) {
			t.Errorf("%U is white space: %v", r, space)
		}
	}
	for c := range rune(utf8.RuneSelf) {
		if picture := new(scanner).emoji(string(c)) > 0; picture != unicode.In(c, unicode.So, unicode.Sk) {
			t.Errorf("%q is a pictograph: %v", c, picture)
		}
	}
}
