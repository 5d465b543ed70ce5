package api

import (
	_ "embed"
	"net/http"

	"assay/api/internal/httpjson"
)

//go:embed openapi.json
var openAPIDocument []byte

func openAPI(w http.ResponseWriter, r *http.Request) error {
	httpjson.Write(w, r, http.StatusOK, openAPIDocument)
	return nil
}
