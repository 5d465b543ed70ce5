package embedded

import (
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"
)

var _ server.Logger = (*serverLog)(nil)

// serverLog forwards the log of the server. The server reports that it cannot start only
// as a fatal log line, so serverLog keeps the first one; and that it cannot read a file only
// as a warning, so serverLog looks for that.
type serverLog struct {
	log        zerolog.Logger
	once       sync.Once
	fatal      chan string
	unreadable func()
}

// newServerLog returns a log that calls unreadable when the server cannot read a file.
func newServerLog(log zerolog.Logger, unreadable func()) *serverLog {
	return &serverLog{log: log, fatal: make(chan string, 1), unreadable: unreadable}
}

func (l *serverLog) Fatalf(format string, v ...any) {
	l.once.Do(func() { l.fatal <- fmt.Sprintf(format, v...) })
}

// Noticef logs at debug level: the notices are about each start of the server.
func (l *serverLog) Noticef(format string, v ...any) { l.log.Debug().Msgf(format, v...) }
func (l *serverLog) Warnf(format string, v ...any) {
	line := fmt.Sprintf(format, v...)
	if strings.Contains(line, "loadBlock error") { // of nats-server's filestore.go
		l.unreadable()
	}
	l.log.Warn().Msg(line)
}
func (l *serverLog) Errorf(format string, v ...any) { l.log.Error().Msgf(format, v...) }
func (l *serverLog) Debugf(format string, v ...any) { l.log.Trace().Msgf(format, v...) }
func (l *serverLog) Tracef(format string, v ...any) { l.log.Trace().Msgf(format, v...) }
