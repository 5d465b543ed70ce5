package feedback_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
)

func TestDecode(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	body := `{"batch_id":"b1","later":{"x":[null]},"items":[
		{"id":"a","label":"violation","response":"You fool.","rater":"ann","time":"2026-03-01T12:00:00Z","prompt":"Hi","new":1},
		{"id":"b","label":"compliant","instances":["One.",""],"rater":null,"time":null,"response":null},
		{"id":"c","label":"compliant","messages":[{"role":"assistant","content":"\ud83d\ude00"}],"response_id":"s1"},
		{"response_id":"s2","label":"violation"},
		{"id":"e","response_id":"s3","label":"violation"}]}`
	got, err := feedback.Decode([]byte(body), feedback.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	want := feedback.Batch{ID: "b1", Items: []feedback.Entry{
		{Index: 0, Item: feedback.Item{Bag: bag.Bag{ID: "a", Label: bag.Violation, Response: "You fool.", Rater: "ann", Time: &at, Prompt: "Hi"}}},
		{Index: 1, Item: feedback.Item{Bag: bag.Bag{ID: "b", Label: bag.Compliant, Instances: []string{"One.", ""}}}},
		{Index: 2, Item: feedback.Item{Bag: bag.Bag{ID: "c", Label: bag.Compliant, Messages: []bag.Message{{Role: "assistant", Content: "😀"}}}, ResponseID: "s1"}},
		{Index: 3, Item: feedback.Item{Bag: bag.Bag{ID: "s2", Label: bag.Violation}, ResponseID: "s2"}},
		{Index: 4, Item: feedback.Item{Bag: bag.Bag{ID: "e", Label: bag.Violation}, ResponseID: "s3"}},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for i, hasText := range []bool{true, true, true, false, false} {
		if got.Items[i].HasText() != hasText {
			t.Errorf("item %d: HasText is %v", i, !hasText)
		}
	}
}

// Only the invalid item is rejected, in both forms of a batch.
func TestDecodeRejectsItems(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, c := range []struct {
		name, item, id string
		code           feedback.Code
		wantText       string
	}{
		{"nothing", `{}`, "", feedback.CodeInvalid, "label: is missing"},
		{"a string", `"a"`, "", feedback.CodeInvalid, "give an object, not a string"},
		{"null", `null`, "", feedback.CodeInvalid, "label: is missing"},
		{"no id", `{"label":"violation","response":"x"}`, "", feedback.CodeInvalid, "id: is missing"},
		{"an empty id", `{"id":"","label":"violation","response":"x"}`, "", feedback.CodeInvalid, "id: is missing"},
		{"a number as id", `{"id":7,"label":"violation","response":"x"}`, "", feedback.CodeInvalid, "id: has the wrong type: give a string, not a number"},
		{"no label", `{"id":"a","response":"x"}`, "a", feedback.CodeInvalid, `label: is missing; give "compliant"`},
		{"an unknown label", `{"response":"x","label":"bad","id":"a"}`, "a", feedback.CodeInvalid, `label: is "bad"`},
		{"a comparison", `{"id":"a","label":"violation","response":"x","comparison":"p"}`, "a", feedback.CodeInvalid, "comparison: is not supported in feedback"},
		{"no text", `{"id":"a","label":"violation"}`, "a", feedback.CodeInvalid, "response: is missing; give exactly one"},
		{"two texts", `{"id":"a","label":"violation","response":"x","instances":["x"]}`, "a", feedback.CodeInvalid, "exactly one"},
		{"no instances", `{"id":"a","label":"violation","instances":[]}`, "a", feedback.CodeInvalid, "instances: is empty"},
		{"a number as instance", `{"id":"a","label":"violation","instances":["a",2]}`, "a", feedback.CodeInvalid, "instances[1]: has the wrong type: give a string, not a number"},
		{"no role", `{"id":"a","label":"violation","messages":[{"content":"x"}]}`, "a", feedback.CodeInvalid, "messages[0].role: is missing"},
		{"no assistant", `{"id":"a","label":"violation","messages":[{"role":"user","content":"x"}]}`, "a", feedback.CodeInvalid, "assistant"},
		{"a bad time", `{"id":"a","label":"violation","response":"x","time":"noon"}`, "a", feedback.CodeInvalid, `time: has the wrong type: it is not a timestamp; give RFC 3339`},
		{"a number as time", `{"id":"a","label":"violation","response":"x","time":1}`, "a", feedback.CodeInvalid, "time: has the wrong type: give a string, not a number"},
		{"a number as rater", `{"id":"a","label":"violation","response":"x","rater":1}`, "a", feedback.CodeInvalid, "rater: has the wrong type: give a string"},
		{"a number as response_id", `{"id":"a","label":"violation","response_id":1}`, "a", feedback.CodeInvalid, "response_id: has the wrong type"},
		{"an empty response_id", `{"label":"violation","response_id":""}`, "", feedback.CodeInvalid, "id: is missing"},
		{"response_id without label", `{"response_id":"s"}`, "s", feedback.CodeInvalid, "label: is missing"},
		{"spans of a response_id", `{"response_id":"s","label":"violation","spans":[[0,1]]}`, "s", feedback.CodeInvalid, "spans: need"},
		{"an empty response", `{"id":"a","label":"violation","response":""}`, "a", feedback.CodeNoText, "no utterance"},
		{"an empty response with a response_id", `{"id":"a","label":"violation","response":"","response_id":"s"}`, "a", feedback.CodeNoText, "no utterance"},
		{"a blank response", `{"id":"a","label":"violation","response":" \n\u00a0"}`, "a", feedback.CodeNoText, "no utterance"},
		{"blank instances", `{"id":"a","label":"violation","instances":[""," "]}`, "a", feedback.CodeNoText, "no utterance"},
		{"a silent assistant", `{"id":"a","label":"violation","messages":[{"role":"user","content":"x"},{"role":"assistant","content":" "}]}`, "a", feedback.CodeNoText, "no utterance"},
		{"invalid UTF-8", "{\"id\":\"a\",\"label\":\"violation\",\"response\":\"caf\xe9\"}", "a", feedback.CodeInvalid, "response: not valid JSON at byte 45: the text is not valid UTF-8"},
		{"invalid UTF-8 as id", "{\"id\":\"\xe9\",\"label\":\"violation\",\"response\":\"x\"}", "\ufffd", feedback.CodeInvalid, "id: not valid JSON"},
		{"a lone surrogate", `{"id":"a","label":"violation","response":"\ud83d"}`, "a", feedback.CodeInvalid, "response: not valid JSON at byte 42: a lone surrogate"},
		{"a name twice", `{"id":"a","label":"violation","label":"compliant","response":"x"}`, "a", feedback.CodeInvalid, "label: is given twice"},
		{"a bomb", `{"id":"a","label":"violation","response":"x","m":` + deep(100) + `}`, "a", feedback.CodeInvalid, "nested deeper than 100"},
	} {
		t.Run(c.name, func(t *testing.T) {
			good := `{"id":"good","label":"compliant","response":"[[[ \" Fine."}`
			want := feedback.Rejection{Index: 1, ID: c.id, Code: c.code}
			check := func(got feedback.Batch, err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
				if len(got.Items) != 2 || len(got.Rejected) != 1 || got.Items[0].Index != 0 || got.Items[1].Index != 2 {
					t.Fatalf("got %+v", got)
				}
				bad := got.Rejected[0]
				if !strings.Contains(bad.Message, c.wantText) || len(bad.Message) > 250 {
					t.Errorf("message %q does not say %q", bad.Message, c.wantText)
				}
				if bad.Message = ""; bad != want {
					t.Errorf("got %+v, want %+v", bad, want)
				}
			}
			check(feedback.Decode([]byte(`{"items":[`+good+","+c.item+","+good+`]}`), feedback.Limits{}))
			check(feedback.DecodeLines([]byte(good+"\r\n\n "+c.item+"\n"+good), feedback.Limits{}))
		})
	}
}

func TestDecodeRejectsBodies(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	item := `{"id":"a","label":"violation","response":"x"}`
	for _, c := range []struct {
		name, body, field, wantText string
		kind                        rewardmodel.ErrorKind
	}{
		{"nothing", " ", "", "is empty", rewardmodel.KindInvalid},
		{"cut off", `{"items":[` + item, "items", "ends too early", rewardmodel.KindInvalid},
		{"cut off in an item", `{"items":[{"id":"a`, "items[0].id", "ends too early", rewardmodel.KindInvalid},
		{"a broken item", `{"items":[` + item + `,{"id":}]}`, "items[1]", "not valid JSON at byte", rewardmodel.KindInvalid},
		{"not JSON", `hello`, "", "not valid JSON", rewardmodel.KindInvalid},
		{"a list", `[` + item + `]`, "", "must be an object, got a list", rewardmodel.KindInvalid},
		{"two bodies", `{"items":[` + item + `]}{}`, "", "data after the JSON object", rewardmodel.KindInvalid},
		{"rubbish behind", `{"items":[` + item + `]} x`, "", "not valid JSON", rewardmodel.KindInvalid},
		{"no items", `{}`, "items", "is missing", rewardmodel.KindInvalid},
		{"items null", `{"items":null}`, "items", "must be a list, got null", rewardmodel.KindInvalid},
		{"items an object", `{"items":{}}`, "items", "must be a list, got an object", rewardmodel.KindInvalid},
		{"items twice", `{"items":[` + item + `],"item\u0073":[]}`, "items", "given twice", rewardmodel.KindInvalid},
		{"empty items", `{"items":[]}`, "items", "empty", rewardmodel.KindUnprocessable},
		{"batch_id a number", `{"batch_id":1,"items":[` + item + `]}`, "batch_id", "must be a string, got a number", rewardmodel.KindInvalid},
		{"batch_id null", `{"batch_id":null,"items":[` + item + `]}`, "batch_id", "must be a string, got null", rewardmodel.KindInvalid},
		{"batch_id broken", "{\"batch_id\":\"\xff\",\"items\":[" + item + `]}`, "batch_id", "UTF-8", rewardmodel.KindInvalid},
		{"an unknown field broken", `{"x":{"y":["\ud800"]},"items":[` + item + `]}`, "x.y[0]", "lone surrogate", rewardmodel.KindInvalid},
		{"a bomb", `{"x":` + deep(100) + `,"items":[` + item + `]}`, "x", "nested deeper than 100", rewardmodel.KindInvalid},
		{"an open bomb", `{"x":` + strings.Repeat("[", 1_000_000), "x", "", rewardmodel.KindInvalid},
		{"a bomb in an item", `{"items":[` + deep(100_000) + `]}`, "items", "", rewardmodel.KindInvalid},
		{"too many", `{"items":[` + strings.Repeat(item+",", 8192) + item + `]}`, "items", "more than 8192 items", rewardmodel.KindTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := feedback.Decode([]byte(c.body), feedback.Limits{})
			var input *rewardmodel.InputError
			if !errors.As(err, &input) {
				t.Fatalf("got %+v and error %v, want an *InputError", got, err)
			}
			if input.Kind != c.kind || !strings.HasPrefix(input.Field, c.field) || !strings.Contains(input.Message, c.wantText) || len(err.Error()) > 1000 {
				t.Errorf("got kind %v, field %q, message %q", input.Kind, input.Field, input.Message)
			}
		})
	}
}

func TestDecodeLines(t *testing.T) {
	got, err := feedback.DecodeLines([]byte("\n{\"id\":\"a\"\n\nhello\n"+`{"id":"b","label":"compliant","response":"x"}`+"\n"+`{"id":"c"} {}`), feedback.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var wantText []string
	for _, r := range got.Rejected {
		wantText = append(wantText, fmt.Sprintf("%d %q %s %s", r.Index, r.ID, r.Code, r.Message))
	}
	want := []string{
		`0 "a" invalid the JSON ends too early, at byte 9; send the whole object`,
		`1 "" invalid not valid JSON at byte 0: invalid character 'h' at start of value`,
		`3 "c" invalid not valid JSON at byte 11: invalid character '{' after top-level value`,
	}
	if !reflect.DeepEqual(wantText, want) || len(got.Items) != 1 || got.Items[0].Index != 2 || got.Items[0].ID != "b" {
		t.Errorf("got %q\nand %+v", wantText, got.Items)
	}

	for body, kind := range map[string]rewardmodel.ErrorKind{
		"":           rewardmodel.KindUnprocessable,
		" \r\n\n":    rewardmodel.KindUnprocessable,
		"{}\n{}\n{}": rewardmodel.KindTooLarge,
	} {
		_, err := feedback.DecodeLines([]byte(body), feedback.Limits{MaxItems: 2})
		var input *rewardmodel.InputError
		if !errors.As(err, &input) || input.Kind != kind {
			t.Errorf("%q: got %v, want kind %v", body, err, kind)
		}
	}
}
