package api

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/api/internal/httpjson"
	"assay/rewardmodel/wire"
)

// maxReason is the maximum length of a reason in code points.
const maxReason = 1000

// readReason reads the optional body {"reason":"..."} of a manual change.
func readReason(w http.ResponseWriter, r *http.Request) (string, error) {
	var body struct {
		Reason string `json:"reason"`
	}
	if err := readOptional(w, r, &body, `{"reason":"..."}`); err != nil {
		return "", err
	}
	return body.Reason, checkReason(body.Reason)
}

func checkReason(reason string) error {
	if n := utf8.RuneCountInString(reason); n > maxReason {
		return failure.Invalid("reason", "has %d characters; give at most %d", n, maxReason)
	}
	return nil
}

// readOptional reads a body of the form shown, if the request has one.
func readOptional(w http.ResponseWriter, r *http.Request, into any, form string) error {
	if r.ContentLength == 0 {
		return nil
	}
	body, _, err := httpjson.ReadBody(w, r, httpjson.JSON)
	if err != nil || len(bytes.TrimSpace(body)) == 0 {
		return err
	}
	if err := exchange.Of(r).Memory.Grow(2 * wire.DecodeBytes(body)); err != nil {
		return err
	}
	if err := json.Unmarshal(body, into, json.RejectUnknownMembers(true)); err != nil {
		var semantic *json.SemanticError
		switch {
		case !errors.As(err, &semantic):
			return failure.Invalid("", "not valid JSON: %s; send %s or no body", strings.TrimPrefix(err.Error(), "jsontext: "), form)
		case errors.Is(err, json.ErrUnknownName):
			return failure.Invalid(fieldOf(semantic), "is not known here; send %s or no body", form)
		default:
			return failure.Invalid(fieldOf(semantic), "has the wrong type; send %s or no body", form)
		}
	}
	return rejectNull(body, form)
}

// rejectNull rejects null members: encoding/json treats null as absent, and a
// client that sends it has lost a value.
func rejectNull(body []byte, form string) error {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return failure.Invalid("", "has the wrong type; send %s or no body", form)
	}
	for name, value := range members {
		if value.Kind() == 'n' {
			return failure.Invalid(name, "is null; leave it out, or send %s", form)
		}
	}
	return nil
}

func fieldOf(err *json.SemanticError) string { return strings.TrimPrefix(string(err.JSONPointer), "/") }
