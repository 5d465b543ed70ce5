package feedback_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"

	"assay/rewardmodel"
	"assay/rewardmodel/feedback"
)

// For any input, each item is either accepted or rejected, and accepted ones can be
// stored.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"batch_id":"b","items":[{"id":"a","label":"violation","response":"x y.","rater":"r","time":"2026-01-02T03:04:05Z"},{}]}`))
	f.Add([]byte(`{"items":[{"response_id":"s","label":"compliant"},"\ud800",{"id":"\ud800"},{"id":"a","id":"b"}],"x":[[null]]}`))
	f.Add([]byte("{\"items\":[{\"id\":\"\xff\",\"label\":\"compliant\",\"messages\":[{\"role\":\"assistant\",\"content\":\"x\"}]}]}"))
	f.Add([]byte(`{"items":[{"id":"a","labels":{"toxicity":"violation","a b":"compliant"},"response":"x"},{"id":"b","labels":{"x":"compliant"},"label":"compliant","response":"x"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		batch, err := feedback.Decode(body, feedback.Limits{MaxItems: 10})
		checkBatch(t, batch, err)
		// encoding/json does not look at the encoding of strings either.
		if err == nil && !json.Valid(body) {
			t.Errorf("accepted broken JSON %q", body)
		}
	})
}

func FuzzDecodeLines(f *testing.F) {
	f.Add([]byte(`{"id":"a","label":"violation","instances":["x",""],"witness":1}` + "\r\n\n" + `{"id":"b"`))
	f.Add([]byte(`{"id":"a","label":"compliant","messages":[{"role":"assistant","content":"x"}]}` + "\n{"))
	f.Add([]byte("null\n[]\n\"\"\n1\n\xff"))
	f.Fuzz(func(t *testing.T, body []byte) {
		batch, err := feedback.DecodeLines(body, feedback.Limits{MaxItems: 10})
		checkBatch(t, batch, err)
	})
}

func checkBatch(t *testing.T, batch feedback.Batch, err error) {
	t.Helper()
	if err != nil {
		var input *rewardmodel.InputError
		if !errors.As(err, &input) || input.Message == "" || !reflect.DeepEqual(batch, feedback.Batch{}) {
			t.Fatalf("got %+v and %#v, want an *InputError with a message", batch, err)
		}
		return
	}
	var indexes []int
	for _, e := range batch.Items {
		indexes = append(indexes, e.Index)
		if e.ID == "" || !e.HasText() && e.ResponseID == "" {
			t.Errorf("accepted %+v", e)
		}
		checkRecord(t, feedback.Record{Bag: e.Bag, ResponseID: e.ResponseID})
	}
	for _, r := range batch.Rejected {
		indexes = append(indexes, r.Index)
		if r.Message == "" || r.Code == "" {
			t.Errorf("rejected without a reason: %+v", r)
		}
	}
	slices.Sort(indexes)
	for i, index := range indexes {
		if i != index {
			t.Fatalf("the items are %v", indexes)
		}
	}
	if len(indexes) == 0 || len(indexes) > 10 {
		t.Errorf("%d items", len(indexes))
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(`{"bag":{"id":"a","label":"violation","response":"x","time":"2026-01-02T03:04:05.6+07:00"},"received":"2026-01-02T03:04:05Z","by":"t","violation":0.5}`))
	f.Add([]byte(`{"bag":{"id":"a","label":"compliant","messages":[{"role":"assistant","content":"x"}]},"response_id":"s","model":"v1"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := feedback.ParseRecord(data); err == nil {
			checkRecord(t, r)
		}
	})
}

func checkRecord(t *testing.T, r feedback.Record) {
	t.Helper()
	data, err := r.AppendJSON(nil)
	if err != nil {
		t.Fatalf("cannot store %+v: %v", r, err)
	}
	again, err := feedback.ParseRecord(data)
	if err != nil || !reflect.DeepEqual(again, r) {
		t.Fatalf("got %+v, %v; want %+v", again, err, r)
	}
	if a, b := again.Mark(1), r.Mark(1); a.ID != b.ID || a.Text != b.Text || a.Rater != b.Rater || !reflect.DeepEqual(a.Labels, b.Labels) {
		t.Fatalf("marks differ: %+v and %+v", a, b)
	}
}
