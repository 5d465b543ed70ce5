package completion

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// fish completes commands until one is given, and then its flags.
func fish(app *kong.Application) string {
	var out strings.Builder
	fmt.Fprintf(&out, "# fish completion for %s\n", app.Name)
	walk(app.Node, func(node *kong.Node) {
		var names []string
		for _, child := range visible(node) {
			names = append(names, child.Name)
		}
		given := fishGiven(node)
		for _, child := range visible(node) {
			condition := fishAnd(given, "not __fish_seen_subcommand_from "+strings.Join(names, " "))
			fmt.Fprintf(&out, "complete -c %s -f -n %s -a %s -d %s\n", app.Name, fishQuoted(condition), child.Name, fishQuoted(summary(child.Help)))
		}
		for _, flag := range node.Flags {
			if !flag.Hidden {
				fishFlag(&out, app.Name, given, flag)
			}
		}
	})
	return out.String()
}

func fishFlag(out *strings.Builder, program, given string, flag *kong.Flag) {
	var condition string
	if given != "" {
		condition = " -n " + fishQuoted(given)
	}
	var value string
	switch {
	case flag.IsBool():
	case flag.Enum != "":
		value = " -x -a " + fishQuoted(strings.Join(flag.EnumSlice(), " "))
	default:
		value = " -r"
	}
	fmt.Fprintf(out, "complete -c %s%s -l %s%s -d %s\n", program, condition, flag.Name, value, fishQuoted(summary(flag.Help)))
	if flag.IsBool() && flag.Tag.Negatable != "" {
		fmt.Fprintf(out, "complete -c %s%s -l no-%s -d %s\n", program, condition, flag.Name, fishQuoted("Not: "+summary(flag.Help)))
	}
}

// fishGiven is the condition that the words of a command are given.
func fishGiven(node *kong.Node) string {
	if node.Type == kong.ApplicationNode {
		return ""
	}
	return fishAnd(fishGiven(node.Parent), "__fish_seen_subcommand_from "+node.Name)
}

func fishAnd(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; and " + b
}

// fishQuoted is text in single quotes, in which fish reads \' and \\.
func fishQuoted(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}
