package cli

import (
	"sync/atomic"

	"github.com/rs/zerolog"
)

// LogLevel is the least severe level that a logger and all that are made from it
// write. It may change at any time.
type LogLevel struct{ least atomic.Int32 }

func (l *LogLevel) set(name string) {
	level, err := zerolog.ParseLevel(name)
	if err != nil {
		level = zerolog.InfoLevel // not reached: the parser knows the levels
	}
	l.least.Store(int32(level))
}

// Sample is called by zerolog before it makes an event.
func (l *LogLevel) Sample(level zerolog.Level) bool { return int32(level) >= l.least.Load() }

// LevelOf is the least severe level that log writes now.
func LevelOf(log zerolog.Logger) zerolog.Level {
	for level := zerolog.TraceLevel; level < zerolog.ErrorLevel; level++ {
		if event := log.WithLevel(level); event.Enabled() {
			event.Discard().Send()
			return level
		}
	}
	return zerolog.ErrorLevel
}
