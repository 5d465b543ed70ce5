package completion_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"assay/sidecar/completion"
)

// commands are a small program, with what may need quotes in its help.
type commands struct {
	Config string `help:"The user's [file]: a path."`
	Serve  struct {
		Listen string `help:"Where."`
		Sync   string `enum:"always,interval" default:"always" help:"When (${enum}); often always."`
		Train  bool   `default:"true" negatable:"" help:"Train."`
	} `cmd:"" help:"Serve until a signal."`
	Models struct {
		List struct{} `cmd:"" help:"List 'all'."`
		Show struct {
			Version string `arg:""`
		} `cmd:"" help:"Show one."`
	} `cmd:"" help:"Models."`
	Secret struct{} `cmd:"" hidden:""`
}

func script(t *testing.T, shell string) string {
	t.Helper()
	parser, err := kong.New(&commands{}, kong.Name("tool-x"), kong.NoDefaultHelp())
	require.NoError(t, err)
	text, err := completion.Script(parser.Model, shell)
	require.NoError(t, err)
	return text
}

// shell runs a program in a shell, and returns the lines that it prints.
func shell(t *testing.T, name string, args ...string) []string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed", name)
	}
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir, command.Env = t.TempDir(), append(os.Environ(), "HOME="+t.TempDir())
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return strings.Fields(string(out))
}

func TestBashCompletes(t *testing.T) {
	complete := func(words ...string) []string {
		var quoted []string
		for _, word := range words {
			quoted = append(quoted, "'"+word+"'")
		}
		return shell(t, "bash", "-c", script(t, "bash")+"\nCOMP_WORDS=("+strings.Join(quoted, " ")+
			"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _tool_x; printf '%s\\n' \"${COMPREPLY[@]}\"")
	}
	require.Equal(t, []string{"serve", "models", "--config"}, complete("tool-x", ""))
	require.Equal(t, []string{"--config", "--listen", "--sync", "--train", "--no-train"}, complete("tool-x", "serve", "--"))
	require.Equal(t, []string{"interval"}, complete("tool-x", "serve", "--sync", "i"))
	require.Equal(t, []string{"always", "interval"}, complete("tool-x", "serve", "--sync", "="))
	require.Equal(t, []string{"always"}, complete("tool-x", "serve", "--sync", "=", "a"))
	require.Equal(t, []string{"list", "show"}, complete("tool-x", "models", "")[:2])
	require.Empty(t, complete("tool-x", "serve", "--listen", ""), "files are left to the shell")
}

func TestFishCompletes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tool.fish")
	require.NoError(t, os.WriteFile(file, []byte(script(t, "fish")), 0o600))
	complete := func(line string) []string {
		return shell(t, "fish", "--no-config", "-c", "source "+file+"; complete -C '"+line+"' | string replace -r '\\t.*' ''")
	}
	require.Equal(t, []string{"models", "serve"}, complete("tool-x "))
	require.Equal(t, []string{"list", "show"}, complete("tool-x models "))
	require.Equal(t, []string{"always", "interval"}, complete("tool-x serve --sync "))
	require.ElementsMatch(t, []string{"--config", "--listen", "--sync", "--train", "--no-train"}, complete("tool-x serve --"))
}

func TestZshReadsItsScript(t *testing.T) {
	file := filepath.Join(t.TempDir(), "_tool")
	require.NoError(t, os.WriteFile(file, []byte(script(t, "zsh")), 0o600))
	require.Equal(t, []string{"_tool_x_models_show"},
		shell(t, "zsh", "-f", "-c", "autoload -U compinit; compinit -u; source "+file+"; print $+functions[_tool_x] >/dev/null; print ${(k)functions[(I)_tool_x_models_show]}"))
}

func TestUnknownShell(t *testing.T) {
	parser, err := kong.New(&commands{})
	require.NoError(t, err)
	_, err = completion.Script(parser.Model, "csh")
	require.ErrorContains(t, err, "bash, zsh or fish")
}
