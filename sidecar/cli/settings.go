package cli

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

// Settings follow the file of --config while a service runs. A few take effect
// at once, the others are named in the log.
type Settings struct {
	program Program
	args    []string // of the program, without its name
	path    string
	level   *LogLevel
	Log     zerolog.Logger
	values  map[string]string // of all flags, as they were last seen
	content [sha256.Size]byte // of the file as last seen, good or bad
	trouble string            // why it could not be read the last time
}

// NewSettings follows the file at path, which --config named when args were parsed. level and log are changed and
// written to.
func NewSettings(p Program, args []string, parsed *kong.Context, path string, level *LogLevel, log zerolog.Logger) *Settings {
	s := &Settings{program: p, args: args, path: path, level: level, Log: log, values: flagValues(parsed)}
	if content, err := os.ReadFile(path); err == nil {
		s.content = sha256.Sum256(content)
	}
	return s
}

// LiveSettings are the settings that take effect immediately, by flag. Each function gets the command that runs with
// the values that its flags have now, and returns what is wrong with them.
type LiveSettings map[string]func(command any) error

// checker is a command that finds settings that cannot work.
type checker interface{ CheckSettings() error }

// Watch takes over changes of the file within a second or so, until ctx ends.
func (s *Settings) Watch(ctx context.Context, live LiveSettings) {
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
			s.Reload(live)
		}
	}
}

// Reload looks at the file once. One that cannot be read or has a fault leaves
// all as it was.
func (s *Settings) Reload(live LiveSettings) {
	content, err := os.ReadFile(s.path)
	if err != nil {
		if s.trouble != err.Error() {
			s.Log.Error().Err(err).Msg("the file of --config cannot be read; the settings stay as they were")
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
	parsed, shared, err := s.parse()
	if err != nil {
		s.Log.Error().Err(err).Msg("the file of --config has a fault; the settings stay as they were")
		return
	}
	values := flagValues(parsed)
	for _, flag := range parsed.Flags() {
		if values[flag.Name] != s.values[flag.Name] {
			s.change(flag.Name, commandOf(parsed), shared, live)
		}
	}
	s.values = values
}

func (s *Settings) change(flag string, command any, shared *GlobalFlags, live LiveSettings) {
	apply := live[flag]
	if flag == "log-level" {
		apply = func(any) error {
			s.level.set(shared.LogLevel)
			return nil
		}
	}
	if apply == nil {
		s.Log.Warn().Str("setting", flag).Msg("the setting has changed and takes effect at the next start")
		return
	}
	if err := apply(command); err != nil {
		s.Log.Error().Err(err).Str("setting", flag).Msg("the setting stays as it was")
		return
	}
	s.Log.Info().Str("setting", flag).Msg("the setting has changed")
}

// parse reads the command line again, and with it the environment and the file.
func (s *Settings) parse() (parsed *kong.Context, shared *GlobalFlags, err error) {
	commands, shared := s.program.New()
	parser, err := s.program.Parser(commands, io.Discard, io.Discard)
	if err != nil {
		return nil, nil, err
	}
	if parsed, err = parser.Parse(s.args); err != nil {
		return nil, nil, err
	}
	if c, ok := commandOf(parsed).(checker); ok {
		err = c.CheckSettings()
	}
	return parsed, shared, err
}

// commandOf is the command that a command line names.
func commandOf(parsed *kong.Context) any { return parsed.Selected().Target.Addr().Interface() }

// flagValues are the values of the flags of a command. They may hold secrets and
// are only compared.
func flagValues(parsed *kong.Context) map[string]string {
	values := map[string]string{}
	for _, flag := range parsed.Flags() {
		values[flag.Name] = fmt.Sprint(parsed.FlagValue(flag))
	}
	return values
}
