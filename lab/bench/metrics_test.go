package bench

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMetricSums(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "# HELP a_sum x\na_sum{v=\"1 2\"} 1.5\na_sum{v=\"2\"} 2\nab_sum 7\nb 3e2\n")
	}))
	defer server.Close()
	sums, err := MetricSums(t.Context(), server.URL, "a_sum", "b")
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"a_sum": 3.5, "b": 300}, sums)
	_, err = MetricSums(t.Context(), server.URL, "c")
	require.ErrorContains(t, err, "has no metric c")
}
