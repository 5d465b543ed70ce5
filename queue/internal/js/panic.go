package js

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/rs/zerolog"
)

// Limits of what is logged of a panic, in bytes.
const (
	maxPanicValue = 1 << 10
	maxPanicStack = 8 << 10
)

// Recovered logs a value that recover returned while a message of the given kind
// was handled, and returns it as an error of that message only.
func Recovered(value any, kind string, log zerolog.Logger) error {
	text, stack := fmt.Sprint(value), debug.Stack()
	text = text[:min(len(text), maxPanicValue)]
	log.Error().Str("panic", text).Bytes("stack", stack[:min(len(stack), maxPanicStack)]).Str("kind", kind).
		Msg("handling a message panicked")
	return errors.New("panic: " + text)
}
