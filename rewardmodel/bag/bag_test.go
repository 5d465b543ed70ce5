package bag

import (
	"bytes"
	"context"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func readAll(t *testing.T, text string) []Bag {
	t.Helper()
	var bags []Bag
	for b, err := range Read(strings.NewReader(text)) {
		if err != nil {
			t.Fatal(err)
		}
		bags = append(bags, b)
	}
	return bags
}

func TestRoundTrip(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	witness := 1
	want := []Bag{
		{ID: "a", Label: Violation, Response: "Hello. You fool.", Spans: [][2]int{{11, 15}}, Prompt: "Hi"},
		{ID: "b", Label: Compliant, Instances: []string{"One.", ""}, Witness: &witness, Rater: "r", Time: &at},
		{ID: "c", Label: Compliant, Messages: []Message{{"user", "Hi"}, {"assistant", "Hello \u2028 there"}}},
		{ID: "d", Label: Compliant, Comparison: "pair 7"},
		{ID: "e", Label: Violation, Response: strings.Repeat("very long ", 1<<18)},
	}
	var file bytes.Buffer
	if err := Write(&file, slices.Values(want)); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, file.String()); !reflect.DeepEqual(got, want) {
		t.Fatal("the bags differ after a round trip")
	}
}

func TestReadRejects(t *testing.T) {
	for _, c := range []struct{ name, line, field, wantText string }{
		{"no JSON", `{"id":`, "", "not valid JSON"},
		{"two values", `{"id":"a","label":"violation","response":""} {}`, "", "not valid JSON"},
		{"a list", `[]`, "", "wrong type"},
		{"invalid UTF-8", "{\"id\":\"\xff\"}", "", "not valid JSON"},
		{"a name twice", `{"id":"a","id":"b"}`, "", "duplicate"},
		{"no id", `{"label":"violation","response":"x"}`, "id", "missing"},
		{"a number as id", `{"id":1,"label":"violation","response":"x"}`, "id", "wrong type"},
		{"no label", `{"id":"a","response":"x"}`, "label", "missing"},
		{"an unknown label", `{"id":"a","label":"bad","response":"x"}`, "label", `"bad"`},
		{"no text", `{"id":"a","label":"violation"}`, "response", "exactly one"},
		{"null text", `{"id":"a","label":"violation","response":null}`, "response", "exactly one"},
		{"two texts", `{"id":"a","label":"violation","response":"x","instances":["x"]}`, "response", "exactly one"},
		{"no instances", `{"id":"a","label":"violation","instances":[]}`, "instances", "empty"},
		{"a number as instance", `{"id":"a","label":"violation","instances":["a",2]}`, "instances/1", "wrong type"},
		{"no role", `{"id":"a","label":"violation","messages":[{"content":"x"}]}`, "messages/0/role", "missing"},
		{"no assistant", `{"id":"a","label":"violation","messages":[{"role":"user","content":"x"}]}`, "messages", "assistant"},
		{"a witness outside", `{"id":"a","label":"violation","instances":["x"],"witness":1}`, "witness", "is 1"},
		{"a span outside", `{"id":"a","label":"violation","response":"é","spans":[[0,2]]}`, "spans/0", "<= 1"},
		{"an empty span", `{"id":"a","label":"violation","response":"abc","spans":[[0,1],[2,2]]}`, "spans/1", "start < end"},
		{"half a span", `{"id":"a","label":"violation","response":"abc","spans":[[1]]}`, "spans/0", "start < end"},
		{"spans without response", `{"id":"a","label":"violation","instances":["x"],"spans":[[0,1]]}`, "spans", "response"},
		{"a long comparison", `{"id":"a","label":"violation","response":"x","comparison":"` + strings.Repeat("x", 513) + `"}`, "comparison", "at most 512"},
		{"a bad time", `{"id":"a","label":"violation","response":"x","time":"noon"}`, "time", "wrong type"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, err := range Read(strings.NewReader("\n" + c.line + "\n")) {
				var bad *LineError
				if !errors.As(err, &bad) {
					t.Fatalf("got %v, want a LineError", err)
				}
				if bad.Line != 2 || bad.Field != c.field || !strings.Contains(bad.Error(), c.wantText) {
					t.Errorf("got line %d, field %q: %v; want line 2, field %q and %q", bad.Line, bad.Field, bad, c.field, c.wantText)
				}
			}
		})
	}
}

func TestReadContinuesAfterABadLine(t *testing.T) {
	var ids []string
	faults := 0
	for b, err := range Read(strings.NewReader("{}\r\n\r\n" + `{"id":"a","label":"violation","response":"x","extra":1}`)) {
		if err != nil {
			faults++
			continue
		}
		ids = append(ids, b.ID)
	}
	if faults != 1 || !slices.Equal(ids, []string{"a"}) {
		t.Errorf("got %d faults and ids %v, want 1 and [a]", faults, ids)
	}
}

func TestReadReportsAFailingReader(t *testing.T) {
	fault := errors.New("disk gone")
	for _, err := range Read(iotest.ErrReader(fault)) {
		if !errors.Is(err, fault) {
			t.Errorf("got %v, want %v", err, fault)
		}
	}
}

func TestWriteRejects(t *testing.T) {
	for _, b := range []Bag{
		{ID: "a", Label: "odd"},
		{Label: Violation, Response: "x"},
		{ID: "a", Label: Violation, Response: "\xff"},
		{ID: "a", Label: Violation, Response: "x", Instances: []string{"x"}},
	} {
		if err := Write(io.Discard, slices.Values([]Bag{b})); err == nil {
			t.Errorf("Write accepts %+v", b)
		}
	}
}

func segmentsOf(t *testing.T, b Bag, limit int, length func(string) (int, error)) []Segment {
	t.Helper()
	segments, err := b.Segments(t.Context(), limit, length)
	if err != nil {
		t.Fatal(err)
	}
	return segments
}

func TestSegments(t *testing.T) {
	text := "Grüße! This is fine. You fool."
	b := Bag{ID: "a", Label: Violation, Response: text, Spans: [][2]int{{25, 29}}}
	segments := segmentsOf(t, b, 0, nil)
	runes := []rune(text)
	for _, s := range segments {
		if got := string(runes[s.Span[0]:s.Span[1]]); got != s.Text {
			t.Errorf("span %v is %q, want %q", s.Span, got, s.Text)
		}
	}
	if got, want := b.Gold(segments), []bool{false, false, true}; !slices.Equal(got, want) {
		t.Errorf("gold is %v, want %v (segments %v)", got, want, segments)
	}
	if b.Spans = nil; b.Gold(segments) != nil {
		t.Error("a violation without marks has no gold")
	}

	words := func(s string) (int, error) { return len(strings.Fields(s)), nil }
	long := Bag{ID: "a", Label: Compliant, Response: strings.Repeat("word ", 50)}
	pieces := segmentsOf(t, long, 8, words)
	if len(pieces) < 7 {
		t.Errorf("50 words make %d pieces of at most 8", len(pieces))
	}
	for _, p := range pieces {
		if n, _ := words(p.Text); n > 8 {
			t.Errorf("%q is longer than 8 words", p.Text)
		}
	}
}

func TestSegmentsOfMessagesAndInstances(t *testing.T) {
	dialogue := Bag{Messages: []Message{{"user", "Me. You."}, {"assistant", "Yes. No."}, {"user", "Oh."}, {"assistant", "Bye."}}}
	want := []Segment{{"Yes.", 1, [2]int{0, 4}}, {"No.", 1, [2]int{5, 8}}, {"Bye.", 3, [2]int{0, 4}}}
	if got := segmentsOf(t, dialogue, 0, nil); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	witness := 1
	given := Bag{Instances: []string{"Yes. No.", "Ü"}, Label: Violation, Witness: &witness}
	want = []Segment{{"Yes. No.", 0, [2]int{0, 8}}, {"Ü", 1, [2]int{0, 1}}}
	got := segmentsOf(t, given, 1, func(string) (int, error) { return 9, nil })
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if gold := given.Gold(got); !slices.Equal(gold, []bool{false, true}) {
		t.Errorf("gold is %v", gold)
	}
}

// Reasoning is not trained on, as it is not scored, and what surrounds it is not read as one text.
func TestSegmentsWithoutReasoning(t *testing.T) {
	b := Bag{Label: Violation, Response: "<think>Grüße? I hate them.</think> Yes. No.", Spans: [][2]int{{13, 25}, {39, 42}}}
	segments := segmentsOf(t, b, 0, nil)
	if want := []Segment{{"Yes.", 0, [2]int{35, 39}}, {"No.", 0, [2]int{40, 43}}}; !slices.Equal(segments, want) {
		t.Fatalf("got %v, want %v", segments, want)
	}
	if gold := b.Gold(segments); !slices.Equal(gold, []bool{false, true}) {
		t.Errorf("gold is %v", gold)
	}
	if text, ok := b.Whole(segments); !ok || text != "Yes. No." {
		t.Errorf("the whole is %q, %v", text, ok)
	}
	b.Response = "Yes. <think>No?</think> No."
	if text, ok := b.Whole(segmentsOf(t, b, 0, nil)); ok {
		t.Errorf("the whole is %q, across reasoning", text)
	}
	b = Bag{Messages: []Message{{"assistant", "<think>a</think>"}, {"assistant", "Yes."}}}
	if got := segmentsOf(t, b, 0, nil); !slices.Equal(got, []Segment{{"Yes.", 1, [2]int{0, 4}}}) {
		t.Errorf("got %v", got)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"id":"a","label":"violation","response":"x y.","spans":[[0,1]],"time":"2026-01-02T03:04:05Z"}`))
	f.Add([]byte(`{"id":"a","label":"compliant","instances":["x",""],"witness":1}`))
	f.Add([]byte(`{"id":"a","label":"compliant","messages":[{"role":"assistant","content":"x"}]}` + "\n{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for b, err := range Read(bytes.NewReader(data)) {
			if err != nil {
				continue
			}
			var file bytes.Buffer
			if err := Write(&file, slices.Values([]Bag{b})); err != nil {
				t.Fatalf("cannot write what was read: %v", err)
			}
			for again, err := range Read(&file) {
				if err != nil || !reflect.DeepEqual(again, b) {
					t.Fatalf("read %+v, %v; want %+v", again, err, b)
				}
			}
		}
	})
}

func TestDecodeOne(t *testing.T) {
	want := Bag{ID: "a", Label: Violation, Response: "x"}
	for _, decode := range []func([]byte) (Bag, error){Decode, DecodeLabel} {
		if got, err := decode([]byte(`{"id":"a","label":"violation","response":"x","rater":null,"new":[1]}`)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	if got, err := DecodeLabel([]byte(`{"label":"violation"}`)); err != nil || !reflect.DeepEqual(got, Bag{Label: Violation}) {
		t.Errorf("a label alone: got %+v, %v", got, err)
	}
	for line, wantText := range map[string]string{
		`{"label":"violation","response":"x"}`:                         "id: is missing",
		`{"id":"a","label":"violation"}`:                               "response: is missing",
		`{"id":"a","label":"violation","messages":{}}`:                 "messages: has the wrong type: give a list, not an object",
		`{"id":"a","label":"violation","response":"x","witness":"1"}`:  "witness: has the wrong type: give an integer, not a string",
		`{"id":"a","label":"violation","response":true}`:               "response: has the wrong type: give a string, not true",
		`{"id":"a","label":"violation","response":"x","time":"noon"}`:  "time: has the wrong type: it is not a timestamp",
		`{"id":"a","label":"violation","response":"x","witness":1e99}`: "witness: has the wrong type",
		`{`: "is not valid JSON",
	} {
		_, err := Decode([]byte(line))
		var bad *FieldError
		if !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), wantText) || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%s: got %v", line, err)
		}
	}
}

// TestSegmentsCanceled has a text in each field that can have one.
func TestSegmentsCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, b := range []Bag{{Response: "Hi."}, {Messages: []Message{{"assistant", "Hi."}}}} {
		if segments, err := b.Segments(ctx, 0, nil); !errors.Is(err, context.Canceled) || segments != nil {
			t.Errorf("got %v, %v", segments, err)
		}
	}
}

// The verdict for a model is about its own aspects.
func TestVerdictOn(t *testing.T) {
	labels := func(pairs ...string) map[string]Label {
		out := map[string]Label{}
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i]] = Label(pairs[i+1])
		}
		return out
	}
	for _, c := range []struct {
		bag  Bag
		want Label
	}{
		{Bag{Labels: labels("rude", "compliant", "evasive", "compliant")}, Compliant},
		{Bag{Labels: labels("rude", "compliant", "evasive", "violation")}, Violation},
		{Bag{Labels: labels("evasive", "violation")}, Violation},
		{Bag{Labels: labels("rude", "compliant")}, ""},
		{Bag{Labels: labels("other", "violation")}, ""},
		{Bag{Labels: labels("rude", "compliant", "evasive", "compliant", "other", "violation")}, Compliant},
		{Bag{Label: Violation, Labels: labels("rude", "compliant")}, Violation},
		{Bag{Label: Compliant}, Compliant},
	} {
		if got := c.bag.VerdictOn([]string{"rude", "evasive"}); got != c.want {
			t.Errorf("%+v: %q, want %q", c.bag, got, c.want)
		}
	}
}
