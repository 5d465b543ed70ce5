package api_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The TypeScript types are generated from the current document.
func TestTypeScriptTypesAreThoseOfTheDocument(t *testing.T) {
	document, err := os.ReadFile("openapi.json")
	require.NoError(t, err)
	types, err := os.ReadFile("../clients/typescript/assay.d.ts")
	require.NoError(t, err)
	sum := sha256.Sum256(document)
	require.Contains(t, string(types[:min(len(types), 300)]), hex.EncodeToString(sum[:]),
		"openapi.json has changed: npm ci && npm run generate, in clients/typescript")
}
