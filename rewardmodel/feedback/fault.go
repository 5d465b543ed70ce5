package feedback

import (
	"fmt"
	"strings"

	"assay/rewardmodel"
	"github.com/go-json-experiment/json/jsontext"
)

func invalid(field, format string, args ...any) *rewardmodel.InputError {
	return &rewardmodel.InputError{Kind: rewardmodel.KindInvalid, Field: field, Message: fmt.Sprintf(format, args...)}
}

func noItems(field, message string) *rewardmodel.InputError {
	return &rewardmodel.InputError{Kind: rewardmodel.KindUnprocessable, Field: field, Message: message}
}

func wrongType(field, want string, got jsontext.Kind) *rewardmodel.InputError {
	names := map[jsontext.Kind]string{
		'{': "an object", '[': "a list", '"': "a string", '0': "a number", 't': "true", 'f': "false", 'n': "null",
	}
	return invalid(field, "must be %s, got %s", want, names[got])
}

func fieldMessage(field, message string) string {
	if field == "" {
		return message
	}
	return field + ": " + message
}

// shorten truncates a name from the client to fit into a message.
func shorten(name string) string { return fmt.Sprintf("%.60s", name) }

func joinPath(outer, inner string) string {
	if inner == "" || strings.HasPrefix(inner, "[") {
		return outer + inner
	}
	return outer + "." + inner
}
