package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"

	"assay/internal/filewatch"
)

// Settings watches the file of --config while a service runs. A few settings take
// effect immediately; a change of the others is logged.
type Settings struct {
	program Program
	args    []string // of the program, without its name
	file    *filewatch.File
	level   *LogLevel
	Log     zerolog.Logger
	values  map[string]string // of all flags, as last applied
}

// NewSettings returns the settings of the file at path, the value of --config in args. A reload changes level and writes
// to log.
func NewSettings(p Program, args []string, parsed *kong.Context, path string, level *LogLevel, log zerolog.Logger) *Settings {
	file := filewatch.New(path)
	_, _ = file.Read() // an error shows at the first check
	return &Settings{program: p, args: args, file: file, level: level, Log: log, values: flagValues(parsed)}
}

// LiveSettings are the settings that take effect immediately, by flag. Each function applies the new flag values of the
// running command, and returns an error if they are invalid.
type LiveSettings map[string]func(command any) error

// checker is a command that validates its settings.
type checker interface{ CheckSettings() error }

// Watch applies changes of the file, within about a second, until ctx ends.
func (s *Settings) Watch(ctx context.Context, live LiveSettings) {
	if s != nil {
		s.file.Watch(ctx, func([]byte) { s.apply(live) }, s.unreadable)
	}
}

// Reload reads the file once and applies changes. An unreadable or invalid file
// changes nothing.
func (s *Settings) Reload(live LiveSettings) {
	s.file.Check(func([]byte) { s.apply(live) }, s.unreadable)
}

func (s *Settings) unreadable(err error) {
	s.Log.Error().Err(err).Msg("cannot read the file of --config; the settings are unchanged")
}

func (s *Settings) apply(live LiveSettings) {
	parsed, shared, err := s.parse()
	if err != nil {
		s.Log.Error().Err(err).Msg("the file of --config is invalid; the settings are unchanged")
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
		s.Log.Warn().Str("setting", flag).Msg("the setting changed and takes effect at the next start")
		return
	}
	if err := apply(command); err != nil {
		s.Log.Error().Err(err).Str("setting", flag).Msg("invalid value; the setting is unchanged")
		return
	}
	s.Log.Info().Str("setting", flag).Msg("setting changed")
}

// parse parses the command line, the environment and the file again.
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

// commandOf is the selected command.
func commandOf(parsed *kong.Context) any { return parsed.Selected().Target.Addr().Interface() }

// flagValues are the values of the flags of a command. They may contain secrets:
// compare them, but do not log them.
func flagValues(parsed *kong.Context) map[string]string {
	values := map[string]string{}
	for _, flag := range parsed.Flags() {
		values[flag.Name] = fmt.Sprint(parsed.FlagValue(flag))
	}
	return values
}
