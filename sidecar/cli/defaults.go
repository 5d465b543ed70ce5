package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// Defaults are the variables that flag tags interpolate as ${name}, so that each default is defined only in its library.
// Durations are formatted without zero units: 6h, not 6h0m0s.
func Defaults(values map[string]any) kong.Vars {
	vars := kong.Vars{}
	for name, value := range values {
		text := fmt.Sprint(value)
		if _, ok := value.(time.Duration); ok {
			text = strings.TrimSuffix(text, "m0s") + map[bool]string{true: "m"}[strings.HasSuffix(text, "m0s")]
			text = strings.TrimSuffix(text, "h0m") + map[bool]string{true: "h"}[strings.HasSuffix(text, "h0m")]
		}
		vars[name] = text
	}
	return vars
}
