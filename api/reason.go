package api

import (
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

// maxReason bounds what is kept of a reason, in code points.
const maxReason = 1000

// readReason reads the optional body {"reason":"..."} of a request by hand.
func (s *Server) readReason(w http.ResponseWriter, r *http.Request) (string, error) {
	if r.ContentLength == 0 {
		return "", nil
	}
	body, _, err := s.readBody(w, r, mediaJSON)
	if err != nil {
		return "", err
	}
	if len(strings.TrimSpace(string(body))) == 0 {
		return "", nil
	}
	var ask struct {
		Reason string `json:"reason"`
	}
	if err := json.Unmarshal(body, &ask, json.RejectUnknownMembers(true)); err != nil {
		field := ""
		var semantic *json.SemanticError
		if errors.As(err, &semantic) {
			field = strings.TrimPrefix(string(semantic.JSONPointer), "/")
		}
		return "", errInvalid(field, `%v; send {"reason":"..."} or no body`, err)
	}
	if n := utf8.RuneCountInString(ask.Reason); n > maxReason {
		return "", errInvalid("reason", "has %d characters; give at most %d", n, maxReason)
	}
	return ask.Reason, nil
}
