package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"
)

// settingsPoll is how often the file of --config is looked at. Its content is
// compared, so that it does not matter how it is replaced: written in place,
// renamed over, or by the symbolic links of a mounted Kubernetes ConfigMap.
const settingsPoll = time.Second

// settings follow the file of --config while a service runs. A few take effect
// at once, the others are named in the log.
type settings struct {
	path    string
	args    []string // of the program, without its name
	level   *logLevel
	log     zerolog.Logger
	values  map[string]string // of all flags, as they were last seen
	content [sha256.Size]byte // of the file as last seen, good or bad
	trouble string            // why it could not be read the last time
}

func newSettings(path string, args []string, parsed *kong.Context, level *logLevel, log zerolog.Logger) *settings {
	s := &settings{path: path, args: args, level: level, log: log, values: flagValues(parsed)}
	if content, err := os.ReadFile(path); err == nil {
		s.content = sha256.Sum256(content)
	}
	return s
}

// liveSettings are what takes effect at once, by flag. Each gets the whole
// command line as it reads now, and says what is wrong with it.
type liveSettings map[string]func(*cli) error

// watch takes over changes of the file within a second or so, until ctx ends.
func (s *settings) watch(ctx context.Context, live liveSettings) {
	if s == nil {
		return
	}
	tick := time.NewTicker(settingsPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.reload(live)
		}
	}
}

// reload looks at the file once. One that cannot be read or has a fault leaves
// all as it was.
func (s *settings) reload(live liveSettings) {
	content, err := os.ReadFile(s.path)
	if err != nil {
		if s.trouble != err.Error() {
			s.log.Error().Err(err).Msg("the file of --config cannot be read; the settings stay as they were")
		}
		s.trouble = err.Error()
		return
	}
	s.trouble = ""
	sum := sha256.Sum256(content)
	if sum == s.content {
		return
	}
	s.content = sum
	c, parsed, err := s.parse()
	if err != nil {
		s.log.Error().Err(err).Msg("the file of --config has a fault; the settings stay as they were")
		return
	}
	values := flagValues(parsed)
	for _, flag := range parsed.Flags() {
		if values[flag.Name] != s.values[flag.Name] {
			s.change(flag.Name, c, live)
		}
	}
	s.values = values
}

func (s *settings) change(flag string, c *cli, live liveSettings) {
	apply := live[flag]
	if flag == "log-level" {
		apply = func(c *cli) error {
			s.level.set(c.LogLevel)
			return nil
		}
	}
	if apply == nil {
		s.log.Warn().Str("setting", flag).Msg("the setting has changed and takes effect at the next start")
		return
	}
	if err := apply(c); err != nil {
		s.log.Error().Err(err).Str("setting", flag).Msg("the setting stays as it was")
		return
	}
	s.log.Info().Str("setting", flag).Msg("the setting has changed")
}

// parse reads the command line again, and with it the environment and the file.
func (s *settings) parse() (*cli, *kong.Context, error) {
	c := &cli{}
	parser, err := newParser(c, io.Discard, io.Discard)
	if err != nil {
		return nil, nil, err
	}
	parsed, err := parser.Parse(s.args)
	if err == nil && parsed.Command() == "serve" {
		err = c.Serve.validate()
	}
	return c, parsed, err
}

// flagValues are the values of the flags of a command. They may hold secrets and
// are only compared.
func flagValues(parsed *kong.Context) map[string]string {
	values := map[string]string{}
	for _, flag := range parsed.Flags() {
		values[flag.Name] = fmt.Sprint(parsed.FlagValue(flag))
	}
	return values
}

// settings that take effect at once are the limits of requests over HTTP and NATS.
func (s *service) settings() liveSettings {
	limits := func(c *cli) error {
		if err := s.http.SetLimits(int64(c.Serve.MaxBody), c.Serve.limits()); err != nil {
			return err
		}
		if q := s.live.queue.Load(); q != nil {
			q.SetLimits(c.Serve.limits())
		}
		return nil
	}
	return liveSettings{"max-body": limits, "max-responses": limits}
}
