package reference

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// HTTP returns the page of an OpenAPI document: each endpoint with its parameters, fields and responses, by tag, and then the
// objects that several endpoints use.
func HTTP(openapi []byte) (string, error) {
	var doc document
	if err := json.Unmarshal(openapi, &doc); err != nil {
		return "", fmt.Errorf("OpenAPI document: %w", err)
	}
	p := &httpPage{page: newPage("HTTP", "api/openapi.json"), doc: doc}
	p.paragraph(prose(doc.Info.Description))
	p.paragraph("This page shows the OpenAPI document of a running service, `GET /openapi.json`, for people. " +
		"The codes of failures have [a page of their own](errors.md).")
	p.overview()
	p.paragraph("## Common parameters")
	var rows [][]string
	for _, name := range doc.Components.Parameters.names {
		rows = append(rows, p.parameterRow(doc.Components.Parameters.values[name]))
	}
	p.table([]string{"parameter", "in", "type", "required", "meaning"}, rows)
	p.paragraph("## Response headers")
	p.table([]string{"header", "type", "meaning"}, p.headers())
	for _, tag := range doc.Tags {
		p.paragraph("## " + tag.Description)
		p.each(func(method, route string, o operation) {
			if slices.Contains(o.Tags, tag.Name) {
				p.operation(method, route, o)
			}
		})
	}
	p.paragraph("## Failures")
	p.paragraph("The bodies of failures, as the tables of responses above name them.")
	rows = nil
	for _, name := range doc.Components.Responses.names {
		r := doc.Components.Responses.values[name]
		rows = append(rows, []string{`<a id="failure-` + anchor(name) + `"></a>` + name, p.contents(r.Content), prose(r.Description)})
	}
	p.table([]string{"failure", "body", "meaning"}, rows)
	p.paragraph("## Objects")
	for _, name := range doc.Components.Schemas.names {
		p.paragraph("### " + name)
		p.schema(doc.Components.Schemas.values[name])
	}
	return p.String(), nil
}

// httpPage is the page in progress.
type httpPage struct {
	*page
	doc document
}

func (p *httpPage) each(visit func(method, route string, o operation)) {
	for _, route := range p.doc.Paths.names {
		methods := p.doc.Paths.values[route]
		for _, method := range methods.names {
			visit(strings.ToUpper(method), route, methods.values[method])
		}
	}
}

func (p *httpPage) overview() {
	var rows [][]string
	p.each(func(method, route string, o operation) {
		title := method + " " + route
		rows = append(rows, []string{fmt.Sprintf("[%s](#%s)", code(title), anchor(title)), prose(o.Summary), scope(o)})
	})
	p.table([]string{"endpoint", "purpose", "scope"}, rows)
}

// scope returns the scope of the token that an endpoint requires.
func scope(o operation) string {
	for _, requirement := range o.Security {
		for _, scopes := range requirement {
			if len(scopes) == 0 {
				return "any"
			}
			return code(strings.Join(scopes, ", "))
		}
	}
	return "none"
}

func (p *httpPage) operation(method, route string, o operation) {
	p.paragraph("### " + method + " " + route)
	p.paragraph(prose(o.Summary) + ". " + prose(o.Description))
	p.paragraph("Scope of the token: " + scope(o) + ".")
	var rows [][]string
	var common []string
	for _, parameter := range o.Parameters {
		if parameter.Ref != "" {
			common = append(common, code(p.doc.Components.Parameters.values[path.Base(parameter.Ref)].Name))
			continue
		}
		rows = append(rows, p.parameterRow(parameter))
	}
	p.table([]string{"parameter", "in", "type", "required", "meaning"}, rows)
	if len(common) > 0 {
		p.paragraph("[Common parameters](#common-parameters): " + strings.Join(common, ", ") + ".")
	}
	if o.RequestBody != nil {
		p.paragraph(strings.TrimSpace("**Request.** " + p.contents(o.RequestBody.Content) + ". " + prose(o.RequestBody.Description)))
		p.bodies(o.RequestBody.Content)
	}
	p.paragraph("**Responses**")
	p.responses(o.Responses)
	for _, status := range o.Responses.names {
		if r := o.Responses.values[status]; r.Ref == "" && strings.HasPrefix(status, "2") {
			p.bodies(r.Content)
		}
	}
}

// responses writes a row for each meaning with all its statuses, in the order of the first one.
func (p *httpPage) responses(responses ordered[response]) {
	var rows [][]string
	for _, status := range slices.Sorted(slices.Values(responses.names)) {
		r, meaning := responses.values[status], ""
		if r.Ref == "" {
			meaning = prose(r.Description)
		} else {
			name := path.Base(r.Ref)
			r, meaning = p.doc.Components.Responses.values[name], fmt.Sprintf("[%s](#failure-%s)", name, anchor(name))
		}
		body := p.contents(r.Content)
		same := slices.IndexFunc(rows, func(row []string) bool { return row[1] == body && row[2] == meaning })
		if same < 0 {
			rows = append(rows, []string{status, body, meaning})
			continue
		}
		rows[same][0] += ", " + status
	}
	p.table([]string{"status", "body", "meaning"}, rows)
}

// bodies writes the fields of objects without their own section, and the first example of each body.
func (p *httpPage) bodies(content ordered[media]) {
	for _, kind := range content.names {
		m := content.values[kind]
		if rows := p.fields("", m.Schema); len(rows) > 0 {
			p.paragraph(prose(m.Schema.Description))
			p.fieldTable(rows)
		}
		if len(m.Examples.names) > 0 {
			p.example(m.Examples.values[m.Examples.names[0]].Value)
		}
	}
}

// exampleLines is the maximum length of an example.
const exampleLines = 60

func (p *httpPage) example(value jsontext.Value) {
	text := string(value)
	if value.Kind() == '"' {
		if unquoted, err := jsontext.AppendUnquote(nil, value); err == nil {
			p.fence("text", string(unquoted))
			return
		}
	}
	if err := value.Indent(jsontext.WithIndent("  ")); err == nil {
		text = string(value)
	}
	if strings.Count(text, "\n") < exampleLines {
		p.fence("json", text)
	}
}

func (p *httpPage) parameterRow(parameter parameter) []string {
	return []string{code(parameter.Name), parameter.In, p.typeOf(parameter.Schema), yes(parameter.Required), p.meaning(parameter.Description, parameter.Schema)}
}

// headers writes the headers of responses, by name.
func (p *httpPage) headers() (rows [][]string) {
	seen := map[string]bool{}
	add := func(headers ordered[parameter]) {
		for _, name := range headers.names {
			header := headers.values[name]
			if header.Ref != "" {
				header = p.doc.Components.Headers.values[path.Base(header.Ref)]
			}
			if !seen[name] {
				seen[name] = true
				rows = append(rows, []string{code(name), p.typeOf(header.Schema), p.meaning(header.Description, header.Schema)})
			}
		}
	}
	p.each(func(_, _ string, o operation) {
		for _, status := range o.Responses.names {
			r := o.Responses.values[status]
			if r.Ref != "" {
				r = p.doc.Components.Responses.values[path.Base(r.Ref)]
			}
			add(r.Headers)
		}
	})
	slices.SortFunc(rows, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	return rows
}

func (p *httpPage) contents(content ordered[media]) string {
	var parts []string
	for _, kind := range content.names {
		text := p.typeOf(content.values[kind].Schema)
		if kind != "application/json" {
			text = code(kind)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// schema describes an object by a table of its fields, and anything else by its type.
func (p *httpPage) schema(s schema) {
	if s.Description != "" {
		p.paragraph(prose(s.Description))
	}
	rows := p.fields("", s)
	if len(rows) == 0 && s.Ref == "" {
		p.paragraph("Type: " + p.typeOf(s) + ".")
	}
	for _, part := range s.AllOf {
		p.paragraph("All fields of " + p.typeOf(part) + ", and:")
	}
	p.fieldTable(rows)
	var choices []string
	for _, choice := range slices.Concat(s.OneOf, s.AnyOf) {
		for _, name := range choice.Required {
			choices = append(choices, code(name))
		}
	}
	switch {
	case len(choices) == 0:
	case len(s.OneOf) > 0:
		p.paragraph("Exactly one of " + strings.Join(choices, ", ") + " is required.")
	default:
		p.paragraph("At least one of " + strings.Join(choices, ", ") + " is required.")
	}
	if s.Additional != nil && s.Additional.schema == nil && !s.Additional.allowed && len(rows) > 0 {
		p.paragraph("Other fields are refused.")
	}
}

// fields returns the rows of the fields of an object, each followed by those of nested objects.
func (p *httpPage) fields(prefix string, s schema) (rows [][]string) {
	for s.Items != nil { // a list of objects
		prefix += "[]"
		if s = *s.Items; s.Items == nil {
			prefix += "."
		}
	}
	if s.Ref != "" {
		return nil
	}
	for _, name := range s.Properties.names {
		field := s.Properties.values[name]
		rows = append(rows, []string{
			code(prefix + name), p.typeOf(field), yes(slices.Contains(s.Required, name)), p.meaning(field.Description, field),
		})
		inner := prefix + name
		if field.Items == nil {
			inner += "."
		}
		rows = append(rows, p.fields(inner, field)...)
	}
	if s.Additional != nil && s.Additional.schema != nil {
		of := *s.Additional.schema
		rows = append(rows, []string{code(prefix + "*"), p.typeOf(of), "", p.meaning(of.Description, of)})
		rows = append(rows, p.fields(prefix+"*.", of)...)
	}
	return rows
}

func (p *httpPage) fieldTable(rows [][]string) {
	p.table([]string{"field", "type", "required", "meaning"}, rows)
}

// typeOf returns the name of a type, with a link if an object is described elsewhere.
func (p *httpPage) typeOf(s schema) string {
	if s.Ref != "" {
		name := path.Base(s.Ref)
		return fmt.Sprintf("[%s](#%s)", name, anchor(name))
	}
	if len(s.Type) == 0 {
		var parts []string
		for _, choice := range slices.Concat(s.OneOf, s.AnyOf) {
			if len(choice.Type) > 0 || choice.Ref != "" || len(choice.OneOf) > 0 {
				parts = append(parts, p.typeOf(choice))
			}
		}
		switch {
		case len(parts) > 0:
			return strings.Join(parts, " or ")
		case s.Const.Kind() == '"', len(s.Enum) > 0 && s.Enum[0].Kind() == '"':
			return "string"
		case s.Const.Kind() == '0':
			return "number"
		case len(s.AllOf) > 0 || len(s.Properties.names) > 0:
			return "object"
		}
		return "any"
	}
	var names []string
	if json.Unmarshal(s.Type, &names) != nil {
		names = []string{strings.Trim(string(s.Type), `"`)}
	}
	for i, name := range names {
		if name == "array" && s.Items != nil {
			names[i] = "array of " + p.typeOf(*s.Items)
		}
	}
	return strings.Join(names, " or ")
}

// meaning returns a description with the allowed values.
func (p *httpPage) meaning(description string, s schema) string {
	parts := []string{prose(description)}
	add := func(label string, value any) {
		parts = append(parts, fmt.Sprintf("%s %s.", label, code(fmt.Sprint(value))))
	}
	var values []string
	for _, value := range s.Enum {
		values = append(values, code(string(value)))
	}
	if len(values) > 0 {
		parts = append(parts, "One of "+strings.Join(values, ", ")+".")
	}
	for _, limit := range []struct {
		label string
		value jsontext.Value
	}{
		{"Always", s.Const}, {"Default", s.Default}, {"Minimum", s.Minimum}, {"Above", s.ExclusiveMinimum},
		{"Maximum", s.Maximum}, {"Below", s.ExclusiveMaximum},
	} {
		if len(limit.value) > 0 {
			add(limit.label, string(limit.value))
		}
	}
	for _, limit := range []struct {
		label string
		value *int
	}{
		{"Least number of items", s.MinItems}, {"Largest number of items", s.MaxItems},
		{"Least length", s.MinLength}, {"Largest length", s.MaxLength},
	} {
		switch {
		case limit.value == nil:
		case *limit.value == 1 && (limit.value == s.MinItems || limit.value == s.MinLength):
			parts = append(parts, "Not empty.")
		default:
			add(limit.label, strconv.Itoa(*limit.value))
		}
	}
	if s.Format != "" {
		add("Format", s.Format)
	}
	return strings.TrimSpace(strings.Join(parts, " "))
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return ""
}
