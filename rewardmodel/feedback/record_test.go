package feedback_test

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
)

func TestRecordRoundTrip(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)
	score := 0.25
	for _, want := range []feedback.Record{
		{Bag: bag.Bag{ID: "a", Label: bag.Violation, Response: "You \u2028 fool. \x00"}, Received: at},
		{
			Bag: bag.Bag{
				ID: "b", Label: bag.Compliant, Messages: []bag.Message{{Role: "user", Content: "Hi"}, {Role: "assistant", Content: "Ho"}},
				Prompt: "p", Rater: "ann", Time: &at,
			},
			ResponseID: "s", Received: at, By: "moderators", Model: "v2", Violation: &score,
		},
		{Bag: bag.Bag{ID: "c", Label: bag.Compliant, Instances: []string{"", "x"}}},
		{Bag: bag.Bag{ID: "d", Labels: map[string]bag.Label{"toxicity": bag.Violation, "refusal": bag.Compliant}, Response: "x"}},
	} {
		data, err := want.AppendJSON([]byte("before"))
		if err != nil {
			t.Fatal(err)
		}
		line, ok := strings.CutPrefix(string(data), "before")
		if !ok || strings.Contains(line, "\n") {
			t.Errorf("wrote %q", data)
		}
		got, err := feedback.ParseRecord([]byte(line))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
		}
	}
}

func TestRecordRejects(t *testing.T) {
	nan := math.NaN()
	good := bag.Bag{ID: "a", Label: bag.Violation, Response: "x"}
	for name, r := range map[string]feedback.Record{
		"no id":    {Bag: bag.Bag{Label: bag.Violation}},
		"NaN":      {Bag: good, Violation: &nan},
		"no UTF-8": {Bag: good, By: "\xff"},
	} {
		if data, err := r.AppendJSON([]byte("before")); err == nil || string(data) != "before" {
			t.Errorf("%s: wrote %q, %v", name, data, err)
		}
	}
	for data, wantText := range map[string]string{
		``:                      "feedback record",
		`{}`:                    "bag",
		`{"bag":{"id":"a"}}`:    "label",
		`{"bag":{"id":"a"}} {}`: "feedback record",
	} {
		if r, err := feedback.ParseRecord([]byte(data)); err == nil || !strings.Contains(err.Error(), wantText) {
			t.Errorf("%s: got %+v, %v", data, r, err)
		}
	}
}

// Records have the same text if and only if they differ at most in prompt, label and
// rater.
func TestMarkOfText(t *testing.T) {
	say := func(texts ...string) (out []bag.Message) {
		for i := 0; i < len(texts); i += 2 {
			out = append(out, bag.Message{Role: texts[i], Content: texts[i+1]})
		}
		return out
	}
	different := []bag.Bag{
		{Response: ""},
		{Response: "a"},
		{Response: "ab"},
		{Instances: []string{"a"}},
		{Instances: []string{"ab"}},
		{Instances: []string{"a", "b"}},
		{Instances: []string{"a\x01b"}},
		{Instances: []string{"a", ""}},
		{Instances: []string{"", "a"}},
		{Messages: say("assistant", "a")},
		{Messages: say("user", "a", "assistant", "b")},
		{Messages: say("user", "", "assistant", "ab")},
		{Messages: say("assistant", "a", "user", "b")},
		{Messages: say("user", "assistant", "a", "b")},
		{Response: strings.Repeat("a", 300)},
		{Instances: []string{strings.Repeat("a", 128)}},
	}
	seen := map[feedback.Hash]int{}
	for i, b := range different {
		b.ID, b.Label = "id", bag.Violation
		m := feedback.Record{Bag: b}.Mark(7)
		if first, ok := seen[m.Text]; ok {
			t.Errorf("%+v and %+v have the same hash", different[first], b)
		}
		seen[m.Text] = i
		at := time.Now()
		b.Prompt, b.Label, b.Rater, b.Time = "p", bag.Compliant, "ann", &at
		again := feedback.Record{Bag: b}.Mark(8)
		want := feedback.Mark{
			ID: feedback.HashOf("id"), Rater: feedback.HashOf("ann"), Text: m.Text, Group: again.Group, Prompted: true, Time: &at, Sequence: 8,
			Labels: feedback.Labels{Whole: bag.Compliant},
		}
		if !reflect.DeepEqual(again, want) || m.Labels.Whole != bag.Violation {
			t.Errorf("got %+v, want %+v", again, want)
		}
	}
}
