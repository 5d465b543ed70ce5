package assay_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	assay "assay/clients/go"
)

// schema is the part of JSON Schema that this test uses.
type schema struct {
	Ref        string             `json:"$ref"`
	Properties map[string]*schema `json:"properties"`
	AllOf      []*schema          `json:"allOf"`
	OneOf      []*schema          `json:"oneOf"`
	Items      *schema            `json:"items"`
}

// The types of the client have exactly the fields of the OpenAPI document.
func TestTypesMatchOpenAPI(t *testing.T) {
	text, err := os.ReadFile("../../api/openapi.json")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the OpenAPI document is not part of this module")
	}
	var document struct {
		Components struct {
			Schemas map[string]*schema `json:"schemas"`
		} `json:"components"`
	}
	if err == nil {
		err = json.Unmarshal(text, &document)
	}
	if err != nil {
		t.Fatal(err)
	}
	all := document.Components.Schemas
	omitted := map[string][]string{
		"Options":   {"instances"},                               // OmitInstances
		"LiveEvent": {"result", "model", "offset_unit", "error"}, // Close
	}
	for name, value := range map[string]any{
		"Item": assay.Item{}, "Options": assay.Options{}, "Result": assay.Result{}, "ModelRecord": assay.ModelRecord{},
		"Model": assay.Model{}, "Current": assay.Current{}, "FeedbackItem": assay.FeedbackItem{}, "Receipt": assay.Receipt{},
		"FeedbackStats": assay.FeedbackStats{}, "Candidate": assay.Candidate{}, "TrainingStatus": assay.TrainingStatus{},
		"LiveEvent": assay.LiveEvent{}, "LiveUtterance": assay.LiveUtterance{},
		"Training": assay.Training{}, "TrainingAsk": assay.TrainingRequest{}, "TrainingStop": assay.TrainingStop{},
		"ResponseLabels": assay.ResponseLabels{}, "RaterLabel": assay.RaterLabel{}, "Event": assay.Event{},
	} {
		t.Run(name, func(t *testing.T) {
			compare(t, all, name, all[name], reflect.TypeOf(value), omitted[name])
		})
	}
}

// compare compares fields recursively.
func compare(t *testing.T, all map[string]*schema, path string, s *schema, typ reflect.Type, omitted []string) {
	t.Helper()
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		typ = typ.Elem()
	}
	want := properties(all, s)
	if typ.Kind() != reflect.Struct || len(want) == 0 {
		return
	}
	got := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(typ) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag != "" && tag != "-" {
			got[tag] = f.Type
		}
	}
	for name, field := range got {
		if want[name] == nil {
			t.Errorf("%s.%s is not in the document", path, name)
			continue
		}
		compare(t, all, path+"."+name, want[name], field, nil)
	}
	for name := range want {
		if got[name] == nil && !slices.Contains(omitted, name) {
			t.Errorf("%s.%s is not in the client", path, name)
		}
	}
}

func properties(all map[string]*schema, s *schema) map[string]*schema {
	found := map[string]*schema{}
	if s == nil {
		return found
	}
	if s.Ref != "" {
		return properties(all, all[s.Ref[strings.LastIndex(s.Ref, "/")+1:]])
	}
	for name, p := range s.Properties {
		found[name] = p
	}
	for _, part := range slices.Concat(s.AllOf, s.OneOf, []*schema{s.Items}) {
		for name, p := range properties(all, part) {
			found[name] = p
		}
	}
	return found
}
