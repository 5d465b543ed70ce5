package api

import (
	_ "embed"
	"net/http"
)

//go:embed openapi.json
var openAPIDocument []byte

func (s *Server) openAPI(w http.ResponseWriter, r *http.Request) error {
	s.write(w, r, http.StatusOK, openAPIDocument)
	return nil
}
