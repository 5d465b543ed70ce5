package api_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The service accepts the timeouts that the document allows.
func TestTimeoutsOfTheDocument(t *testing.T) {
	pattern := document(t).Components.Parameters["RequestTimeout"].Value.Schema.Value.Pattern
	allowed := regexp.MustCompile(pattern)
	s := start(t, scorerOf(t, &model{}, 0))
	for _, value := range []string{"30", "0.5", ".5", "020", "7.", "1m30s", "2h", "1500ms", "99999999999999999999"} {
		require.Regexp(t, allowed, value)
		require.Equal(t, 200, s.score(t, one("fine"), "X-Request-Timeout", value).StatusCode, value)
	}
	for _, value := range []string{"0", "0.0", "-3s", "soon", "NaN", "INF", "1e3", "0x10", "."} {
		require.NotRegexp(t, allowed, value)
		require.Equal(t, 400, s.score(t, one("fine"), "X-Request-Timeout", value).StatusCode, value)
	}
}
