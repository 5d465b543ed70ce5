package reference

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// CommandLine returns the page of a program: each command with its arguments and flags. The intro follows the title.
func CommandLine(app *kong.Application, title, intro string) string {
	p := newPage(title, "the command tree")
	p.paragraph(intro)
	p.paragraph("A flag on the command line wins over its environment variable, that over the file of `--config`, and that " +
		"over the default. The variable of `--some-flag` is `ASSAY_SOME_FLAG`; its key in the file is `some-flag`, " +
		"and one file can serve all commands. BYTES take a unit, such as `64MiB`; DURATION is such as `90s` or `1h30m`.")
	commands := app.Leaves(true)
	var rows [][]string
	for _, c := range commands {
		rows = append(rows, []string{fmt.Sprintf("[%s](#%s)", code(c.FullPath()), anchor(c.FullPath())), prose(c.Help)})
	}
	p.table([]string{"command", "purpose"}, rows)

	p.paragraph("## Flags of every command")
	p.flags(app.Flags)
	for _, c := range commands {
		p.command(c)
	}
	return p.String()
}

func (p *page) command(c *kong.Node) {
	p.paragraph("## " + c.FullPath())
	p.paragraph(prose(c.Help))
	usage := []string{c.FullPath()}
	for _, flag := range flagsOf(c) {
		if flag.Required && !flag.Hidden {
			usage = append(usage, flagForm(flag))
		}
	}
	for _, argument := range c.Positional {
		usage = append(usage, argument.Summary())
	}
	p.fence("text", strings.Join(append(usage, "[flags]"), " "))
	p.detail(c.Detail)

	var rows [][]string
	for _, argument := range c.Positional {
		rows = append(rows, []string{code(argument.Summary()), code(argument.Default), prose(argument.Help)})
	}
	p.table([]string{"argument", "default", "meaning"}, rows)
	p.flags(flagsOf(c))
}

// flagsOf returns the flags of a command and of its parents, without those of every command.
func flagsOf(c *kong.Node) (flags []*kong.Flag) {
	for ; c != nil && c.Type != kong.ApplicationNode; c = c.Parent {
		flags = append(flags, c.Flags...)
	}
	return flags
}

// flags writes a table for each group, in the order of the help.
func (p *page) flags(flags []*kong.Flag) {
	var titles []string
	groups := map[string][][]string{}
	for _, flag := range flags {
		if flag.Hidden {
			continue
		}
		var title string
		if flag.Group != nil {
			title = flag.Group.Title
		}
		if _, ok := groups[title]; !ok {
			titles = append(titles, title)
		}
		var variables []string
		for _, name := range flag.Envs {
			variables = append(variables, code(name))
		}
		key := code(flag.Name)
		if len(flag.Envs) == 0 || flag.Name == "config" {
			key = ""
		}
		groups[title] = append(groups[title], []string{
			code(flagForm(flag)), flagDefault(flag), strings.Join(variables, ", "), key, prose(flag.Help),
		})
	}
	for _, title := range titles {
		if title != "" {
			p.paragraph("**" + strings.TrimSuffix(title, ":") + "**")
		}
		p.table([]string{"flag", "default", "environment variable", "key in the file", "meaning"}, groups[title])
	}
}

func flagForm(flag *kong.Flag) string {
	form := "--" + flag.Name
	switch {
	case flag.IsBool() && flag.Tag.Negatable != "":
		form = "--[no-]" + flag.Name
	case !flag.IsBool():
		form += "=" + placeholder(flag)
	}
	if flag.Short != 0 {
		form = fmt.Sprintf("-%c, %s", flag.Short, form)
	}
	return form
}

// placeholder returns the form of a flag's value.
func placeholder(flag *kong.Flag) string {
	target := flag.Target.Type()
	var list string
	if target.Kind() == reflect.Slice {
		target, list = target.Elem(), ",..."
	}
	switch {
	case flag.PlaceHolder != "":
		return flag.PlaceHolder + list
	case flag.Enum != "":
		return strings.Join(flag.EnumSlice(), "|")
	case target == reflect.TypeFor[time.Duration]():
		return "DURATION" + list
	}
	switch target.Kind() {
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint64:
		return "N" + list
	case reflect.Float32, reflect.Float64:
		return "NUMBER" + list
	default:
		return "TEXT" + list
	}
}

func flagDefault(flag *kong.Flag) string {
	switch {
	case flag.Required:
		return "required"
	case flag.IsBool() && flag.Default == "" && len(flag.Envs) > 0:
		return code("false")
	}
	return code(flag.Default)
}

// detail writes the long help, whose indented lines are commands or files.
func (p *page) detail(text string) {
	for block := range strings.SplitSeq(text, "\n\n") {
		lines := strings.Split(strings.Trim(block, "\n"), "\n")
		if strings.HasPrefix(lines[0], "    ") {
			for i := range lines {
				lines[i] = strings.TrimPrefix(lines[i], "    ")
			}
			p.fence("text", strings.Join(lines, "\n"))
			continue
		}
		if joined := strings.Join(lines, " "); joined != "" {
			p.paragraph(prose(joined))
		}
	}
}
