// Package completion writes scripts with which shells complete the command line of a program. A script lists all
// commands and flags, so that a completion does not start the program, which would load libtorch each time.
package completion

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// Script is the script for bash, zsh or fish.
func Script(app *kong.Application, shell string) (string, error) {
	switch shell {
	case "bash":
		return bash(app), nil
	case "zsh":
		return zsh(app), nil
	case "fish":
		return fish(app), nil
	}
	return "", fmt.Errorf("%s is not a supported shell; give bash, zsh or fish", shell)
}

// visible are the commands directly below a node.
func visible(node *kong.Node) (commands []*kong.Node) {
	for _, child := range node.Children {
		if !child.Hidden {
			commands = append(commands, child)
		}
	}
	return commands
}

// walk visits a node and the commands below it.
func walk(node *kong.Node, visit func(*kong.Node)) {
	visit(node)
	for _, child := range visible(node) {
		walk(child, visit)
	}
}

// option is a flag in one of its forms.
type option struct {
	*kong.Flag
	name   string // with the dashes
	values []string
}

// options are the flags that a command takes, its own and those of the commands above it.
func options(node *kong.Node) (all []option) {
	for _, group := range node.AllFlags(true) {
		for _, flag := range group {
			o := option{Flag: flag, name: "--" + flag.Name}
			if flag.Enum != "" {
				o.values = flag.EnumSlice()
			}
			all = append(all, o)
			if flag.IsBool() && flag.Tag.Negatable != "" {
				all = append(all, option{Flag: flag, name: "--no-" + flag.Name})
			}
		}
	}
	return all
}

// summary is the first sentence of a help text.
func summary(help string) string {
	for _, end := range []string{". ", "; "} {
		help, _, _ = strings.Cut(help, end)
	}
	return strings.TrimSuffix(help, ".")
}

// quoted is text in single quotes, as bash and zsh read them.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// path names a command by the words that call it, such as /models/list; that of the program is empty.
func path(node *kong.Node) string {
	if node.Type == kong.ApplicationNode {
		return ""
	}
	return path(node.Parent) + "/" + node.Name
}
