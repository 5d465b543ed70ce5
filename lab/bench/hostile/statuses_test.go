package hostile

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFaulty(t *testing.T) {
	for outcome, want := range map[string]bool{
		"200": false, "400": false, "413": false, "503": false, "504": false, "500": true, "501": true, "502": true, "505": true,
		"no response": false, "closed by the service": false, "60 calls ended": false,
		"grpc-status 0": false, "grpc-status 3": false, "grpc-status 4": false, "grpc-status 8": false, "grpc-status 14": false,
		"grpc-status 2": true, "grpc-status 12": true, "grpc-status 13": true, "grpc-status 15": true,
	} {
		require.Equal(t, want, faulty(outcome), outcome)
	}
}

func TestUndocumentedErrorsFailTheRun(t *testing.T) {
	attacks := newTally()
	attacks.add("a gzip bomb", "413")
	attacks.add("a gzip bomb", "503")
	calm := map[string]*measured{"one response": {failures: map[string]int{"503": 1, "504": 2}}}
	require.NoError(t, undocumented(attacks, calm))
	attacks.add("a gzip bomb", "500")
	attacks.add("a gzip bomb", "500")
	require.EqualError(t, undocumented(attacks, calm), "undocumented errors of the service: a gzip bomb: 500 (2)")
	under := map[string]*measured{"64 responses": {failures: map[string]int{"500": 1}}}
	require.EqualError(t, undocumented(newTally(), calm, under), "undocumented errors of the service: honest, 64 responses: 500 (1)")
}
