package reference

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ordered is a JSON object whose members keep the order of the file.
type ordered[T any] struct {
	names  []string
	values map[string]T
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (o *ordered[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if kind := d.PeekKind(); kind != '{' {
		return fmt.Errorf("an object was expected, not %v", kind)
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	o.values = map[string]T{}
	for d.PeekKind() != '}' {
		var name string
		var value T
		if err := json.UnmarshalDecode(d, &name); err != nil {
			return err
		}
		if err := json.UnmarshalDecode(d, &value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		o.names, o.values[name] = append(o.names, name), value
	}
	_, err := d.ReadToken()
	return err
}

// document is the part of an OpenAPI document that the page shows.
type document struct {
	Info struct {
		Description string `json:"description"`
	} `json:"info"`
	Tags []struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	} `json:"tags"`
	Paths      ordered[ordered[operation]] `json:"paths"`
	Components struct {
		Parameters ordered[parameter] `json:"parameters"`
		Headers    ordered[parameter] `json:"headers"`
		Responses  ordered[response]  `json:"responses"`
		Schemas    ordered[schema]    `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	Tags        []string              `json:"tags"`
	Summary     string                `json:"summary"`
	Description string                `json:"description"`
	Security    []map[string][]string `json:"security"`
	Parameters  []parameter           `json:"parameters"`
	RequestBody *body                 `json:"requestBody"`
	Responses   ordered[response]     `json:"responses"`
}

// parameter is also a header of a response.
type parameter struct {
	Ref         string `json:"$ref"`
	Name        string `json:"name"`
	In          string `json:"in"`
	Description string `json:"description"`
	Required    bool   `json:"required"`
	Schema      schema `json:"schema"`
}

type body struct {
	Description string         `json:"description"`
	Content     ordered[media] `json:"content"`
}

type response struct {
	Ref         string             `json:"$ref"`
	Description string             `json:"description"`
	Headers     ordered[parameter] `json:"headers"`
	Content     ordered[media]     `json:"content"`
}

type media struct {
	Schema   schema           `json:"schema"`
	Examples ordered[example] `json:"examples"`
}

type example struct {
	Value jsontext.Value `json:"value"`
}

// schema is a JSON Schema. The type is one name or a list of names.
type schema struct {
	Ref              string           `json:"$ref"`
	Type             jsontext.Value   `json:"type"`
	Description      string           `json:"description"`
	Format           string           `json:"format"`
	Enum             []jsontext.Value `json:"enum"`
	Const            jsontext.Value   `json:"const"`
	Default          jsontext.Value   `json:"default"`
	Minimum          jsontext.Value   `json:"minimum"`
	Maximum          jsontext.Value   `json:"maximum"`
	ExclusiveMinimum jsontext.Value   `json:"exclusiveMinimum"`
	ExclusiveMaximum jsontext.Value   `json:"exclusiveMaximum"`
	MinItems         *int             `json:"minItems"`
	MaxItems         *int             `json:"maxItems"`
	MinLength        *int             `json:"minLength"`
	MaxLength        *int             `json:"maxLength"`
	Required         []string         `json:"required"`
	Properties       ordered[schema]  `json:"properties"`
	Additional       *additional      `json:"additionalProperties"`
	Items            *schema          `json:"items"`
	OneOf            []schema         `json:"oneOf"`
	AnyOf            []schema         `json:"anyOf"`
	AllOf            []schema         `json:"allOf"`
}

// additional is a schema, or whether there may be other fields.
type additional struct {
	schema  *schema
	allowed bool
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (a *additional) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() == '{' {
		return json.UnmarshalDecode(d, &a.schema)
	}
	return json.UnmarshalDecode(d, &a.allowed)
}
