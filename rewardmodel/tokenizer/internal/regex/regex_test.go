package regex

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFind(t *testing.T) {
	for _, test := range []struct{ pattern, text, want string }{
		{`a|ab`, "ab", "a"},
		{`ab?c`, "xac", "ac"},
		{`a+?b`, "caab", "aab"},
		{`a*+a`, "aaa", ""},
		{`(?:ab){2,3}c`, "ababababc", "abababc"},
		{`(?:ab){0,2}?b`, "abb", "abb"},
		{`a{2}b|a{1,}c`, "aaac", "aaac"},
		{`\s+(?!\S)`, "a   b", "  "},
		{`x(?=y)`, "xxy", "x"},
		{`[^\s\d]+`, " 1é!2", "é!"},
		{`[a\-c\]]+`, "b-]a", "-]a"},
		{`\P{L}\p{^L}`, "a1.b", "1."},
		{`(?i:'S|k)`, "x'ſ", "'ſ"},
		{`(?i:K)`, "\u212a", "\u212a"},
		{`\u00e9.`, "é\né.", "é."},
		{`(?:|a)b`, "ab", "ab"},
		{`(?:a|aa)?b`, "aab", "aab"},
	} {
		r, err := Compile(test.pattern)
		require.NoError(t, err, test.pattern)
		start, end := r.Find([]byte(test.text), 0)
		require.Equal(t, test.want, test.text[start:end], test.pattern)
	}
}
