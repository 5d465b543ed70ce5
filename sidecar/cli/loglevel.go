package cli

import (
	"sync/atomic"

	"github.com/rs/zerolog"
)

// LogLevel is the minimum level of a logger and of all loggers derived from it. It
// may change at any time.
type LogLevel struct{ min atomic.Int32 }

func (l *LogLevel) set(name string) {
	level, err := zerolog.ParseLevel(name)
	if err != nil {
		level = zerolog.InfoLevel // unreachable: the parser validates the levels
	}
	l.min.Store(int32(level))
}

// Sample implements zerolog.Sampler: it drops events below the level.
func (l *LogLevel) Sample(level zerolog.Level) bool { return int32(level) >= l.min.Load() }

// LevelOf is the current minimum level of log.
func LevelOf(log zerolog.Logger) zerolog.Level {
	for level := zerolog.TraceLevel; level < zerolog.ErrorLevel; level++ {
		if event := log.WithLevel(level); event.Enabled() {
			event.Discard().Send()
			return level
		}
	}
	return zerolog.ErrorLevel
}
