package regex

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The pattern is that of a file, which may ask for more memory than there is.
func TestCompileLimits(t *testing.T) {
	for _, pattern := range []string{
		strings.Repeat("(", 1<<20), strings.Repeat("(?:", 51) + "a" + strings.Repeat(")", 51),
		strings.Repeat("(?:", 5) + "a" + strings.Repeat("){100}", 5),
	} {
		_, err := Compile(pattern)
		require.Error(t, err)
	}
	_, err := Compile(strings.Repeat("(?:", 50) + "a" + strings.Repeat(")", 50) + "(?:a{100}|b){100}")
	require.NoError(t, err)
}

// Without what a search remembers, these would take years.
func TestFindIsNotExponential(t *testing.T) {
	text := []byte(strings.Repeat("a", 400))
	for _, pattern := range []string{`(?:a|a){60}b`, `(?:a|aa){50}b`, `(?:(?:a|a){9}|a){9}b`, `(?:a*|a+){20}b`} {
		r, err := Compile(pattern)
		require.NoError(t, err)
		start, end := r.Find(text, 0)
		require.Equal(t, []int{len(text), len(text)}, []int{start, end}, pattern)
	}
	r, err := Compile(`(?:a|a){60}b`)
	require.NoError(t, err)
	start, end := r.Find(append(text, 'b'), 0)
	require.Equal(t, []int{340, 401}, []int{start, end})
}

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
