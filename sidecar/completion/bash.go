package completion

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// bash finds the command among the words before the cursor, and then what may follow.
func bash(app *kong.Application) string {
	var commands, values, words strings.Builder
	walk(app.Node, func(node *kong.Node) {
		var names []string
		for _, child := range visible(node) {
			fmt.Fprintf(&commands, "            %s) command=$command/$word ;;\n", path(child))
			names = append(names, child.Name)
		}
		var files []string
		for _, o := range options(node) {
			names = append(names, o.name)
			switch {
			case o.IsBool():
			case o.values != nil:
				fmt.Fprintf(&values, "        '%s %s') COMPREPLY=($(compgen -W %s -- \"$current\")); return ;;\n",
					path(node), o.name, quoted(strings.Join(o.values, " ")))
			default:
				files = append(files, fmt.Sprintf("'%s %s'", path(node), o.name))
			}
		}
		if len(files) > 0 {
			fmt.Fprintf(&values, "        %s) return ;;\n", strings.Join(files, " | "))
		}
		fmt.Fprintf(&words, "        '%s') words=%s ;;\n", path(node), quoted(strings.Join(names, " ")))
	})
	return fmt.Sprintf(`# bash completion for %[1]s
_%[2]s() {
    local current=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD-1]} command= words= word i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        case $command/$word in
%[3]s        esac
    done
    if [[ $current == = ]]; then # of --flag=
        current=
    elif [[ $flag == = ]]; then
        flag=${COMP_WORDS[COMP_CWORD-2]}
    fi
    case "$command $flag" in
%[4]s    esac
    case $command in
%[5]s    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _%[2]s %[1]s
`, app.Name, strings.ReplaceAll(app.Name, "-", "_"), commands.String(), values.String(), words.String())
}
