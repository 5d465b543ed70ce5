package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"assay/api"
	"assay/rewardmodel"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/recent"
	"assay/rewardmodel/retrain"
	"assay/rewardmodel/wire"
)

// parsed is loaded once, because that takes longer than most tests.
var parsed = sync.OnceValues(func() (*openapi3.T, error) { return openapi3.NewLoader().LoadFromFile("openapi.json") })

var router = sync.OnceValues(func() (routers.Router, error) {
	doc, err := parsed()
	if err != nil {
		return nil, err
	}
	return gorillamux.NewRouter(doc)
})

func document(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := parsed()
	require.NoError(t, err)
	return doc
}

func routes(t *testing.T) routers.Router {
	t.Helper()
	r, err := router()
	require.NoError(t, err)
	return r
}

// allowed validates a request against the document, except its token.
func allowed(t *testing.T, r *http.Request) error {
	t.Helper()
	route, params, err := routes(t).FindRoute(r)
	require.NoError(t, err)
	return openapi3filter.ValidateRequest(t.Context(), &openapi3filter.RequestValidationInput{
		Request: r, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc},
	})
}

func TestOpenAPIIsValid(t *testing.T) {
	doc := document(t)
	require.NoError(t, doc.Validate(context.Background()))
	require.Equal(t, "3.1.0", doc.OpenAPI)

	s := start(t, scorerOf(t, &model{}, 0))
	got := s.get(t, "/openapi.json")
	want, err := os.ReadFile("openapi.json")
	require.NoError(t, err)
	require.Equal(t, want, got.body)
}

// The document, the router and the index at "/" name the same operations.
func TestOpenAPIIsComplete(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	var documented, routed, indexed []string
	for path, item := range document(t).Paths.Map() {
		for method := range item.Operations() {
			documented = append(documented, method+" "+path)
		}
	}
	require.NoError(t, chi.Walk(s.Handler().(chi.Routes), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if method != http.MethodHead {
			routed = append(routed, method+" "+route)
		}
		return nil
	}))
	var index struct {
		Endpoints []struct{ Method, Path string }
	}
	require.NoError(t, json.Unmarshal(s.get(t, "/").body, &index))
	indexed = append(indexed, "GET /")
	for _, e := range index.Endpoints {
		indexed = append(indexed, e.Method+" "+e.Path)
	}
	for _, list := range [][]string{documented, routed, indexed} {
		sort.Strings(list)
	}
	require.Equal(t, documented, routed)
	require.Equal(t, documented, indexed)
}

// Each property and parameter has a description that is a sentence, its own or that of the schema that it refers to.
func TestOpenAPIDescribesEachField(t *testing.T) {
	doc := document(t)
	sentence := func(where, description string) {
		t.Helper()
		require.Regexp(t, `(?s)^[^a-z].*[.]$`, description, "description of %s", where)
	}
	seen := map[*openapi3.Schema]bool{}
	var fields func(where string, s *openapi3.SchemaRef)
	fields = func(where string, s *openapi3.SchemaRef) {
		if s == nil || s.Value == nil || seen[s.Value] {
			return
		}
		seen[s.Value] = true
		for name, property := range s.Value.Properties {
			sentence(where+"."+name, property.Value.Description)
			fields(where+"."+name, property)
		}
		fields(where+"[]", s.Value.Items)
		fields(where+"{}", s.Value.AdditionalProperties.Schema)
		for _, part := range slices.Concat(s.Value.AllOf, s.Value.AnyOf, s.Value.OneOf) {
			fields(where, part)
		}
	}
	content := func(where string, c openapi3.Content) {
		for _, media := range c {
			fields(where, media.Schema)
		}
	}
	for name, s := range doc.Components.Schemas {
		fields(name, s)
	}
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			where := method + " " + path
			for _, p := range slices.Concat(item.Parameters, operation.Parameters) {
				sentence(where+" parameter "+p.Value.Name, p.Value.Description)
				fields(where+" parameter "+p.Value.Name, p.Value.Schema)
			}
			if operation.RequestBody != nil {
				content(where, operation.RequestBody.Value.Content)
			}
			for status, response := range operation.Responses.Map() {
				content(where+" "+status, response.Value.Content)
				for name, h := range response.Value.Headers {
					sentence(where+" header "+name, h.Value.Description)
				}
			}
		}
	}
}

// Requests of every form conform to the document and get 200 with a response that
// does, too.
func TestOpenAPIDescribesRealRequests(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	operation := document(t).Paths.Find("/v1/score").Post
	var bodies []string
	for _, example := range operation.RequestBody.Value.Content["application/json"].Examples {
		value, err := json.Marshal(example.Value.Value)
		require.NoError(t, err)
		bodies = append(bodies, string(value))
	}
	require.Len(t, bodies, 6)
	for _, reward := range []string{"compliance", "logit", "raw"} {
		for _, aggregate := range []string{"max", "topk", "noisy_or", "mean"} {
			bodies = append(bodies, `{"responses":[{"response":"Fine. Not # fine."},{"response":" "},{"messages":[{"role":"assistant","content":"# \u00e9."}]}],`+
				`"options":{"reward":"`+reward+`","aggregate":"`+aggregate+`","offset_unit":"utf16","instances":true}}`)
		}
	}
	for _, body := range bodies {
		r, err := http.NewRequest(http.MethodPost, "http://"+s.addr+"/v1/score", strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		require.NoError(t, allowed(t, r), body)
		require.Equal(t, 200, s.score(t, body).StatusCode, body)
	}
}

// The decoder rejects what the document forbids, so that generated clients are not
// surprised.
func TestOpenAPIRejectsWhatTheServiceRejects(t *testing.T) {
	for name, body := range map[string]string{
		"no responses":     `{}`,
		"empty list":       `{"responses":[]}`,
		"null":             `{"responses":[{"response":null}]}`,
		"number":           `{"responses":[{"response":7}]}`,
		"nothing to score": `{"responses":[{"id":"a"}]}`,
		"two to score":     `{"responses":[{"response":"a","instances":["a"]}]}`,
		"no role":          `{"responses":[{"messages":[{"content":"a"}]}]}`,
		"unknown option":   `{"responses":[{"response":"a"}],"options":{"foo":1}}`,
		"unknown value":    `{"responses":[{"response":"a"}],"options":{"reward":"x"}}`,
		"empty value":      `{"responses":[{"response":"a"}],"options":{"reward":""}}`,
		"top_k of 0":       `{"responses":[{"response":"a"}],"options":{"top_k":0}}`,
		"model of null":    `{"responses":[{"response":"a"}],"model":null}`,
		"unknown layout":   `{"responses":[{"response":"a","token_offsets":[]}],"options":{"dense":"x"}}`,
		"gamma of 0":       `{"responses":[{"response":"a","token_offsets":[]}],"options":{"dense":"last","gamma":0}}`,
		"flat tokens":      `{"responses":[{"response":"a","token_offsets":[0,1]}],"options":{"dense":"last"}}`,
		"half a token":     `{"responses":[{"response":"a","token_offsets":[[0]]}],"options":{"dense":"last"}}`,
		"empty tokenizer":  `{"responses":[{"response":"a"}],"options":{"dense":"last","tokenizer":""}}`,
		"tokens of others": `{"responses":[{"instances":["a"],"token_offsets":[[0,1]]}],"options":{"dense":"last"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := wire.DecodeRequest([]byte(body), wire.Limits{})
			require.Error(t, err)
			r, err := http.NewRequest(http.MethodPost, "http://localhost/v1/score", bytes.NewReader([]byte(body)))
			require.NoError(t, err)
			r.Header.Set("Content-Type", "application/json")
			require.Error(t, allowed(t, r))
		})
	}
}

// The document has every field that the service sends.
func TestOpenAPIDescribesTheResponses(t *testing.T) {
	doc := document(t)
	for name, value := range map[string]any{
		"Result": rewardmodel.Result{}, "Training": api.Training{}, "TrainingData": retrain.Data{}, "Current": retrain.Current{},
		"FeedbackStats": feedback.Stats{}, "Candidate": feedback.Candidate{}, "Receipt": feedback.Receipt{},
		"ResponseLabels": feedback.ResponseLabels{},
		"ScoredResponse": recent.Response{},
	} {
		describes(t, doc.Components.Schemas[name].Value, name, reflect.TypeOf(value), map[reflect.Type]bool{})
	}
}

// describes compares the fields of a type with the properties of its schema, once for
// each type.
func describes(t *testing.T, s *openapi3.Schema, path string, typ reflect.Type, seen map[reflect.Type]bool) {
	t.Helper()
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		typ = typ.Elem()
	}
	if s.Items != nil {
		s = s.Items.Value
	}
	switch typ.Kind() {
	case reflect.Map:
		if s.AdditionalProperties.Schema != nil {
			describes(t, s.AdditionalProperties.Schema.Value, path+"{}", typ.Elem(), seen)
		}
	case reflect.Struct:
		if seen[typ] {
			return
		}
		seen[typ] = true
		properties := map[string]*openapi3.SchemaRef{}
		collect(s, properties)
		for _, f := range reflect.VisibleFields(typ) {
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if tag == "" || tag == "-" {
				continue
			}
			property := properties[tag]
			if property == nil {
				t.Errorf("%s.%s is not in the document", path, tag)
				continue
			}
			describes(t, property.Value, path+"."+tag, f.Type, seen)
		}
	}
}

func collect(s *openapi3.Schema, properties map[string]*openapi3.SchemaRef) {
	maps.Copy(properties, s.Properties)
	for _, part := range slices.Concat(s.AllOf, s.OneOf) {
		collect(part.Value, properties)
	}
}
