package queue

import (
	"fmt"
	"sync"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"
)

var _ server.Logger = (*serverLog)(nil)

// serverLog forwards the log of the server. The server reports that it cannot start only
// as a fatal log line, so serverLog keeps the first one.
type serverLog struct {
	log   zerolog.Logger
	once  sync.Once
	fatal chan string
}

func newServerLog(log zerolog.Logger) *serverLog {
	return &serverLog{log: log, fatal: make(chan string, 1)}
}

func (l *serverLog) Fatalf(format string, v ...any) {
	l.once.Do(func() { l.fatal <- fmt.Sprintf(format, v...) })
}

// Noticef logs at debug level: the notices are about each start of the server.
func (l *serverLog) Noticef(format string, v ...any) { l.log.Debug().Msgf(format, v...) }
func (l *serverLog) Warnf(format string, v ...any)   { l.log.Warn().Msgf(format, v...) }
func (l *serverLog) Errorf(format string, v ...any)  { l.log.Error().Msgf(format, v...) }
func (l *serverLog) Debugf(format string, v ...any)  { l.log.Trace().Msgf(format, v...) }
func (l *serverLog) Tracef(format string, v ...any)  { l.log.Trace().Msgf(format, v...) }
