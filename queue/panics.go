package queue

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/rs/zerolog"
)

// The most that is logged of a panic, in bytes.
const (
	panicValueSize = 1 << 10
	panicStackSize = 8 << 10
)

// panicked counts and logs what recover returned while a message of that kind was
// handled, and returns it as an error of that message only.
func panicked(value any, kind string, m *metrics, log zerolog.Logger) error {
	m.panics.WithLabelValues(kind).Inc()
	text, stack := fmt.Sprint(value), debug.Stack()
	text = text[:min(len(text), panicValueSize)]
	log.Error().Str("panic", text).Bytes("stack", stack[:min(len(stack), panicStackSize)]).Str("kind", kind).Msg("handling a message panicked")
	return errors.New("panic: " + text)
}
