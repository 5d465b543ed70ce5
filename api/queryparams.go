package api

import (
	"net/http"
	"strconv"

	"assay/api/internal/failure"
)

// The numbers of candidates, events and scored responses that a client may request.
const (
	maxListed         = 1000
	defaultCandidates = 20
	defaultEvents     = 100
	defaultScored     = 100
)

// countParam reads how many entries a query requests, from minimum to maxListed.
func countParam(r *http.Request, name string, minimum, fallback int) (int, error) {
	value := r.URL.Query().Get(name)
	if value == "" {
		return fallback, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < minimum || n > maxListed {
		return 0, failure.Invalid(name, "%.50q is not a number from %d to %d", value, minimum, maxListed)
	}
	return n, nil
}
