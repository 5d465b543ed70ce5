package completion

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// zsh has a function for each command, which describes its flags to _arguments.
func zsh(app *kong.Application) string {
	var out strings.Builder
	fmt.Fprintf(&out, "#compdef %s\n", app.Name)
	walk(app.Node, func(node *kong.Node) {
		fmt.Fprintf(&out, "\n%s() {\n", zshFunction(app, node))
		children := visible(node)
		if len(children) > 0 {
			out.WriteString("    local context state state_descr line\n    typeset -A opt_args\n    local -a commands=(\n")
			for _, child := range children {
				fmt.Fprintf(&out, "        %s\n", quoted(child.Name+":"+summary(child.Help)))
			}
			out.WriteString("    )\n    _arguments -C \\\n")
		} else {
			out.WriteString("    _arguments \\\n")
		}
		for _, o := range options(node) {
			fmt.Fprintf(&out, "        %s \\\n", quoted(zshOption(o)))
		}
		if len(children) == 0 {
			out.WriteString("        '*:file:_files'\n}\n")
			return
		}
		out.WriteString("        '1: :->command' '*:: :->arguments'\n    case $state in\n")
		out.WriteString("        command) _describe command commands ;;\n        arguments)\n            case $words[1] in\n")
		for _, child := range children {
			fmt.Fprintf(&out, "                %s) %s ;;\n", child.Name, zshFunction(app, child))
		}
		out.WriteString("            esac ;;\n    esac\n}\n")
	})
	fmt.Fprintf(&out, "\ncompdef %s %s\n", zshFunction(app, app.Node), app.Name)
	return out.String()
}

func zshFunction(app *kong.Application, node *kong.Node) string {
	return "_" + strings.NewReplacer("-", "_", "/", "_").Replace(app.Name+path(node))
}

// zshOption describes a flag, as in --sync=[When to flush]:value:(always interval).
func zshOption(o option) string {
	text := o.name
	if !o.IsBool() {
		text += "="
	}
	text += "[" + strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`).Replace(summary(o.Help)) + "]"
	switch {
	case o.IsBool():
	case o.values != nil:
		text += ":value:(" + strings.Join(o.values, " ") + ")"
	default:
		text += ":value:_files"
	}
	if o.IsCumulative() {
		text = "*" + text
	}
	return text
}
