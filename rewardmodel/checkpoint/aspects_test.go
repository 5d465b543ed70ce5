package checkpoint

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"assay/rewardmodel"
)

// twoAspects writes a checkpoint of two aspects whose rows of the head are not in
// the order of the manifest, and returns the head as it was given.
func twoAspects(t *testing.T, labels []string, aspects ...Aspect) (dir string, head []float32) {
	t.Helper()
	source := mustOpen(t, filepath.Join("testdata", "roberta-model"))
	cfg := source.Config
	cfg.NumLabels, cfg.Labels = len(labels), labels
	var tensors []Tensor
	for _, spec := range Specs(cfg, true) {
		if !strings.HasPrefix(spec.Name, "classifier.") {
			tensor, err := source.Tensor(spec.Name)
			if err != nil {
				t.Fatal(err)
			}
			tensors = append(tensors, tensor)
			continue
		}
		n := 1
		for _, d := range spec.Shape {
			n *= d
		}
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(i)
		}
		if spec.Name == "classifier.out_proj.weight" {
			head = values
		}
		tensors = append(tensors, FromFloat32(spec.Name, F32, spec.Shape, values))
	}
	dir = filepath.Join(t.TempDir(), "model")
	if err := Write(dir, cfg, Manifest{Version: "v1", Threshold: 0.5, Aspects: aspects}, tensors); err != nil {
		t.Fatal(err)
	}
	return dir, head
}

func namesOf(aspects []Aspect) []string {
	var names []string
	for _, a := range aspects {
		names = append(names, a.Name)
	}
	return names
}

func TestAspectsRoundTrip(t *testing.T) {
	labels := []string{"refusal:compliant", "Toxicity:violation", "refusal:violation", "toxicity:compliant"}
	dir, head := twoAspects(t, labels,
		Aspect{Name: "toxicity", Weight: 2, Threshold: 0.25, Thresholds: map[string]float64{"mean": 0.5}, LengthSlope: 1.5, Unknown: []byte(`{"later":1}`)},
		Aspect{Name: "refusal", Weight: 0, Threshold: 0.75})
	c := mustOpen(t, dir)

	if want := []string{"toxicity:violation", "toxicity:compliant", "refusal:violation", "refusal:compliant"}; !slices.Equal(c.Config.Labels, want) {
		t.Errorf("labels %q", c.Config.Labels)
	}
	stored, err := c.Float32("classifier.out_proj.weight")
	if err != nil {
		t.Fatal(err)
	}
	h := c.Config.HiddenSize
	for row, from := range []int{1, 3, 2, 0} {
		if !slices.Equal(stored[row*h:(row+1)*h], head[from*h:(from+1)*h]) {
			t.Errorf("row %d of the head is not row %d as given", row, from)
		}
	}
	m := c.Manifest
	if m.Threshold != 0.25 || m.Thresholds["mean"] != 0.5 || m.LengthSlope != 1.5 {
		t.Errorf("the manifest's threshold is %v, %v, slope %v", m.Threshold, m.Thresholds, m.LengthSlope)
	}
	list := m.AspectList()
	if len(list) != 2 || list[0].Weight != 2 || list[1].Weight != 0 || list[1].Threshold != 0.75 || list[0].LengthSlope != 1.5 || list[1].LengthSlope != 0 || m.CombinationOrDefault() != rewardmodel.CombineMin ||
		string(list[0].Unknown) != `{"later":1}` {
		t.Errorf("aspects %+v", list)
	}
	if text := string(readFile(t, dir, "config.json")); !strings.Contains(text, `"problem_type": "multi_label_classification"`) {
		t.Errorf("config.json has no problem_type: %s", text)
	}

	err = UpdateManifest(dir, func(m *Manifest) { m.Aspects[0].Threshold, m.Combination = 0.5, rewardmodel.CombineSum })
	if err != nil {
		t.Fatal(err)
	}
	if m := mustOpen(t, dir).Manifest; m.Threshold != 0.5 || m.AspectList()[0].Threshold != 0.5 || m.CombinationOrDefault() != rewardmodel.CombineSum {
		t.Errorf("updated manifest %+v", m)
	}
}

func TestLabelsOfAspects(t *testing.T) {
	labels := `"id2label":{"0":"b:compliant","1":"a:violation","2":"B:Violation","3":" a:compliant"}`
	cfg, err := parseConfig([]byte(with(labels)))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		manifest Manifest
		want     []LabelRows
	}{
		"order of the labels":   {Manifest{Threshold: 0.25}, []LabelRows{{2, 0}, {1, 3}}},
		"order of the manifest": {Manifest{Aspects: []Aspect{{Name: "a"}, {Name: "b"}}}, []LabelRows{{1, 3}, {2, 0}}},
	} {
		m := test.manifest
		m.nameAspects(cfg)
		rows, single, err := (&Checkpoint{Config: cfg, Manifest: &m}).Labels()
		if err != nil || single || !slices.Equal(rows, test.want) {
			t.Errorf("%s: %v, %v, %v", name, rows, single, err)
		}
	}
	m := Manifest{Threshold: 0.25}
	m.nameAspects(cfg)
	if list := m.AspectList(); len(list) != 2 || list[0].Name != "b" || list[0].Threshold != 0.25 || list[1].Threshold != DefaultThreshold || list[1].Weight != 1 {
		t.Errorf("aspects of the labels: %+v", list)
	}
	m = Manifest{Threshold: 0.25}
	if list := m.AspectList(); len(list) != 1 || list[0].Name != rewardmodel.DefaultAspect || list[0].Threshold != 0.25 || list[0].Weight != 1 {
		t.Errorf("aspects of a manifest without any: %+v", list)
	}
}

func TestAspectsRefuse(t *testing.T) {
	seventeen := make([]string, 17)
	for i := range seventeen {
		seventeen[i] = `{"name":"a` + strconv.Itoa(i) + `"}`
	}
	for name, test := range map[string]struct{ text, want string }{
		"no name":              {`{"aspects":[{}]}`, `aspects[0].name: "" is not the name of an aspect`},
		"capitals":             {`{"aspects":[{"name":"Toxicity"}]}`, `aspects[0].name: "Toxicity" is not`},
		"leading dash":         {`{"aspects":[{"name":"-a"}]}`, `aspects[0].name: "-a" is not`},
		"long name":            {`{"aspects":[{"name":"` + strings.Repeat("a", 65) + `"}]}`, `aspects[0].name`},
		"twice":                {`{"aspects":[{"name":"a"},{"name":"a"}]}`, `aspects[1].name is "a", as of an earlier aspect`},
		"negative weight":      {`{"aspects":[{"name":"a","weight":-1}]}`, "aspects[0].weight is -1"},
		"infinite weight":      {`{"aspects":[{"name":"a","weight":1e999}]}`, "weight"},
		"no positive weight":   {`{"aspects":[{"name":"a","weight":0}]}`, "every weight is 0"},
		"threshold":            {`{"aspects":[{"name":"a","threshold":1.5}]}`, "aspects[0].threshold is 1.5"},
		"length_slope":         {`{"aspects":[{"name":"a","length_slope":11}]}`, "aspects[0].length_slope is 11"},
		"thresholds":           {`{"aspects":[{"name":"a","thresholds":{"mean":-1}}]}`, "aspects[0].thresholds.mean is -1"},
		"calibration":          {`{"aspects":[{"name":"a","calibration":{"max":{"from":[0,1],"to":[0,-1]}}}]}`, "aspects[0].calibration.max: bad calibration: knot 1"},
		"combination":          {`{"combination":"max"}`, `combination is "max"; use sum, min or lexicographic`},
		"number of labels":     {`{"aspects":[{"name":"a"},{"name":"b"}]}`, "aspects has 2 elements, which take 4 labels, but config.json has 2"},
		"too many":             {`{"aspects":[` + strings.Join(seventeen, ",") + `]}`, "aspects has 17 elements; the maximum is 16"},
		"context tokens":       {`{"context":true,"context_tokens":23}`, "context_tokens is 23; the model takes 3 to 22"},
		"few context tokens":   {`{"context_tokens":2}`, "context_tokens is 2"},
		"negative length":      {`{"whole_characters":-1}`, "whole_characters is -1; use 0 for none"},
		"negative context":     {`{"context_tokens":-1}`, "context_tokens is -1"},
		"aspects not an array": {`{"aspects":{}}`, "aspects"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyDirectory(t, "bert-two")
			writeAll(t, []byte(test.text), dir, manifestFile)
			_, err := Open(dir)
			wantError(t, err, ErrDamaged, test.want)
		})
	}

	dir, _ := twoAspects(t, []string{"a:violation", "a:compliant", "b:violation", "b:compliant"}, Aspect{Name: "a", Weight: 1}, Aspect{Name: "b"})
	edit(t, filepath.Join(dir, "config.json"), "b:compliant", "c:compliant")
	_, err := Open(dir)
	wantError(t, err, ErrDamaged, `id2label in config.json has no label "b:compliant"`)
}

func TestAspectDefaults(t *testing.T) {
	dir := copyDirectory(t, "bert-two")
	writeAll(t, []byte(`{"aspects":[{"name":"toxicity"}],"context":true}`), dir, manifestFile)
	c := mustOpen(t, dir)
	if a := c.Manifest.AspectList(); len(a) != 1 || a[0].Name != "toxicity" || a[0].Weight != 1 || a[0].Threshold != DefaultThreshold {
		t.Errorf("aspects %+v", a)
	}
	if c.MaxContext() != 22 { // all positions: fewer than the default
		t.Errorf("max context %d", c.MaxContext())
	}
	c.Manifest.ContextTokens = 7
	if c.MaxContext() != 7 {
		t.Errorf("max context %d", c.MaxContext())
	}
	c.Manifest.Context = false
	if c.MaxContext() != 0 {
		t.Errorf("max context %d without context", c.MaxContext())
	}
}
