package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// configFlag names a YAML file of flags.
type configFlag string

// BeforeResolve is called by kong when the flag is set, on the command line or in the environment.
func (configFlag) BeforeResolve(ctx *kong.Context, trace *kong.Path) error {
	path, _ := ctx.FlagValue(trace.Flag).(configFlag)
	if path == "" {
		return nil
	}
	values, err := readConfig(string(path))
	if err != nil {
		return Usage(fmt.Errorf("--config %s: %w", path, err))
	}
	ctx.AddResolver(&config{path: string(path), values: values})
	return nil
}

// config is a kong.Resolver that takes the values of flags from a file.
type config struct {
	path   string
	values map[string]any // string or []any of strings
}

// Validate rejects keys that are not a flag of any command. One file can have the settings of several commands.
func (c *config) Validate(app *kong.Application) error {
	known := map[string]bool{}
	err := kong.Visit(app, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok && len(flag.Envs) > 0 && flag.Name != "config" {
			known[flag.Name] = true
		}
		return next(nil)
	})
	if err != nil {
		return err
	}
	for key := range c.values {
		if known[key] {
			continue
		}
		hint := "keys are the names of flags, without leading dashes"
		if other := strings.ReplaceAll(key, "_", "-"); known[other] {
			hint = "did you mean " + other + "?"
		}
		return fmt.Errorf("--config %s: unknown key %q; %s", c.path, key, hint)
	}
	return nil
}

// Resolve returns the file's value of a flag. kong calls it for flags that the
// command line does not set; it must give precedence to the environment.
func (c *config) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Envs {
		if _, ok := os.LookupEnv(name); ok {
			return nil, nil
		}
	}
	value, ok := c.values[flag.Name]
	if !ok {
		return nil, nil
	}
	return value, nil
}

func readConfig(path string) (map[string]any, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseConfig(data)
}

// parseConfig parses a YAML mapping. It keeps scalars as text, so that only the
// type of the flag determines how to parse them: "1e-5", "64MiB", "no".
func parseConfig(data []byte) (map[string]any, error) {
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		pairs, err := pairsOf(doc.Body)
		if err != nil {
			return nil, err
		}
		for _, pair := range pairs {
			key := pair.Key.GetToken().Value
			if _, ok := values[key]; ok {
				return nil, fmt.Errorf("duplicate key %q; remove one", key)
			}
			if values[key], err = valueOf(pair.Value); err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	return values, nil
}

func pairsOf(body ast.Node) ([]*ast.MappingValueNode, error) {
	switch node := body.(type) {
	case *ast.MappingNode:
		return node.Values, nil
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{node}, nil
	case *ast.CommentGroupNode, *ast.NullNode:
		return nil, nil
	}
	return nil, errors.New("not a mapping; write one \"flag: value\" per line")
}

func valueOf(node ast.Node) (any, error) {
	if list, ok := node.(*ast.SequenceNode); ok {
		values := make([]any, len(list.Values))
		for i, element := range list.Values {
			text, err := textOf(element)
			if err != nil {
				return nil, err
			}
			values[i] = text
		}
		return values, nil
	}
	return textOf(node)
}

func textOf(node ast.Node) (string, error) {
	switch node := node.(type) {
	case *ast.StringNode:
		return node.Value, nil
	case *ast.LiteralNode:
		return node.Value.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return node.GetToken().Value, nil
	case *ast.NullNode:
		return "", errors.New("no value; give one, or remove the key")
	}
	return "", errors.New("must be a scalar or a list of scalars")
}
