package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"assay/rewardmodel"
)

func TestDecodeRequestRejects(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	item := func(fields string) string { return `{"responses":[{` + fields + `}]}` }
	options := func(fields string) string { return `{"responses":[{"response":"a"}],"options":{` + fields + `}}` }
	const (
		invalid       = rewardmodel.KindInvalid
		tooLarge      = rewardmodel.KindTooLarge
		unprocessable = rewardmodel.KindUnprocessable
	)
	tests := []struct {
		name, body, field, message string
		kind                       rewardmodel.ErrorKind
	}{
		{"nothing", ``, "", "is empty", invalid},
		{"white space", " \n", "", "is empty", invalid},
		{"cut off", `{"responses":[{"response":"a"`, "responses[0]", "ends too early", invalid},
		{"cut off in a string", `{"responses":[{"response":"a`, "responses[0].response", "ends too early", invalid},
		{"open brace", `{`, "", "ends too early", invalid},
		{"not JSON", `hello`, "", "not valid JSON", invalid},
		{"trailing comma", item(`"response":"a",`), "responses[0]", "not valid JSON", invalid},
		{"single quotes", `{'responses':[]}`, "", "not valid JSON", invalid},
		{"two documents", `{"responses":[{"response":"a"}]}{}`, "", "data after the JSON object", invalid},
		{"rubbish behind", `{"responses":[{"response":"a"}]} x`, "", "not valid JSON", invalid},
		{"a list", `[]`, "", "must be an object, got a list", invalid},
		{"null", `null`, "", "must be an object, got null", invalid},
		{"control character", "{\"responses\":[{\"response\":\"a\x01b\"}]}", "responses[0].response", "not valid JSON", invalid},
		{"raw NUL", "{\"responses\":[{\"response\":\"a\x00b\"}]}", "responses[0].response", "not valid JSON", invalid},
		{"invalid UTF-8", "{\"responses\":[{\"response\":\"caf\xe9\"}]}", "responses[0].response", "not valid UTF-8", invalid},
		{"invalid UTF-8 in an unknown field", "{\"responses\":[{\"response\":\"a\"}],\"x\":\"\xff\"}", "x", "not valid UTF-8", invalid},
		{"overlong UTF-8", "{\"responses\":[{\"response\":\"\xc0\x80\"}]}", "responses[0].response", "not valid UTF-8", invalid},
		{"high surrogate alone", item(`"response":"\ud83d"`), "responses[0].response", "lone surrogate", invalid},
		{"low surrogate alone", item(`"response":"\ude00 x"`), "responses[0].response", "lone surrogate", invalid},
		{"surrogates swapped", item(`"instances":["ok","\ude00\ud83d"]`), "responses[0].instances[1]", "lone surrogate", invalid},
		{"surrogate in metadata", item(`"response":"a","metadata":{"k":"\ud83d"}`), "responses[0].metadata.k", "lone surrogate", invalid},
		{"duplicate name", item(`"response":"a","response":"b"`), "responses[0].response", "given twice", invalid},
		{"duplicate name, escaped", item(`"response":"a","respons\u0065":"b"`), "responses[0].response", "given twice", invalid},
		{"duplicate at the top", `{"responses":[{"response":"a"}],"responses":[]}`, "responses", "given twice", invalid},
		{"no responses", `{}`, "responses", "is missing", invalid},
		{"misspelt responses", `{"response":"a"}`, "responses", "is missing", invalid},
		{"responses null", `{"responses":null}`, "responses", "must be a list, got null", invalid},
		{"responses an object", `{"responses":{}}`, "responses", "must be a list, got an object", invalid},
		{"responses a string", `{"responses":"a"}`, "responses", "must be a list, got a string", invalid},
		{"no response in the list", `{"responses":[]}`, "responses", "empty", unprocessable},
		{"item a string", `{"responses":["a"]}`, "responses[0]", "must be an object, got a string", invalid},
		{"item null", `{"responses":[{"response":"a"},null]}`, "responses[1]", "must be an object, got null", invalid},
		{"item with nothing", `{"responses":[{}]}`, "responses[0]", "exactly one of", invalid},
		{"item with an id only", item(`"id":"a"`), "responses[0]", "exactly one of", invalid},
		{"two inputs", item(`"response":"a","instances":["a"]`), "responses[0]", "response and instances", invalid},
		{"three inputs", item(`"response":"a","instances":[],"messages":[]`), "responses[0]", "exactly one of", invalid},
		{"response null", item(`"response":null`), "responses[0].response", "got null", invalid},
		{"response a number", item(`"response":3`), "responses[0].response", "must be a string, got a number", invalid},
		{"response a list", item(`"response":["a"]`), "responses[0].response", "must be a string, got a list", invalid},
		{"id a number", item(`"response":"a","id":7`), "responses[0].id", "must be a string, got a number", invalid},
		{"prompt null", item(`"response":"a","prompt":null`), "responses[0].prompt", "got null", invalid},
		{"instances null", item(`"instances":null`), "responses[0].instances", "must be a list, got null", invalid},
		{"instance a number", item(`"instances":["a",1]`), "responses[0].instances[1]", "must be a string, got a number", invalid},
		{"instance null", `{"responses":[{"response":"a"},{"instances":[null]}]}`, "responses[1].instances[0]", "got null", invalid},
		{"messages an object", item(`"messages":{}`), "responses[0].messages", "must be a list", invalid},
		{"message a string", item(`"messages":["a"]`), "responses[0].messages[0]", "must be an object", invalid},
		{"message without a role", item(`"messages":[{"content":"a"}]`), "responses[0].messages[0].role", "is missing", invalid},
		{"message without content", item(`"messages":[{"role":"user"}]`), "responses[0].messages[0].content", "is missing", invalid},
		{"content null", item(`"messages":[{"role":"assistant","content":null}]`), "responses[0].messages[0].content", "got null", invalid},
		{"content parts", item(`"messages":[{"role":"user","content":[]}]`), "responses[0].messages[0].content", "must be a string, got a list", invalid},
		{"model null", `{"responses":[{"response":"a"}],"model":null}`, "model", "got null", invalid},
		{"model a number", `{"responses":[{"response":"a"}],"model":1}`, "model", "must be a string", invalid},
		{"options null", `{"responses":[{"response":"a"}],"options":null}`, "options", "must be an object, got null", invalid},
		{"options a list", `{"responses":[{"response":"a"}],"options":[]}`, "options", "must be an object", invalid},
		{"unknown option", options(`"rewards":"logit"`), "options.rewards", "is not an option", invalid},
		{"option in the wrong case", options(`"Reward":"logit"`), "options.Reward", "is not an option", invalid},
		{"unknown reward", options(`"reward":"Compliance"`), "options.reward", `unknown value "Compliance"`, invalid},
		{"empty reward", options(`"reward":""`), "options.reward", "is empty", invalid},
		{"unknown aggregate", options(`"aggregate":"median"`), "options.aggregate", "max, topk, noisy_or, mean", invalid},
		{"unknown unit", options(`"offset_unit":"bytes"`), "options.offset_unit", "codepoint, utf8, utf16", invalid},
		{"unknown reasoning", options(`"reasoning":"keep"`), "options.reasoning", "skip, score", invalid},
		{"reward null", options(`"reward":null`), "options.reward", "got null", invalid},
		{"reward a number", options(`"reward":1`), "options.reward", "must be a string", invalid},
		{"instances a string", options(`"instances":"true"`), "options.instances", "must be true or false, got a string", invalid},
		{"instances null", options(`"instances":null`), "options.instances", "got null", invalid},
		{"top_k zero", options(`"aggregate":"topk","top_k":0`), "options.top_k", "at least 1", invalid},
		{"top_k negative", options(`"aggregate":"topk","top_k":-1`), "options.top_k", "at least 1", invalid},
		{"top_k a fraction", options(`"top_k":2.5`), "options.top_k", "an integer", invalid},
		{"top_k huge", options(`"top_k":1e99`), "options.top_k", "an integer", invalid},
		{"top_k a string", options(`"top_k":"3"`), "options.top_k", "must be an integer, got a string", invalid},
		{"unknown layout", options(`"dense":"even"`), "options.dense", "last, instance, witness, shaped", invalid},
		{"empty layout", options(`"dense":""`), "options.dense", "is empty", invalid},
		{"gamma zero", options(`"gamma":0`), "options.gamma", "above 0", invalid},
		{"gamma above one", options(`"gamma":1.01`), "options.gamma", "at most 1", invalid},
		{"gamma huge", options(`"gamma":1e999`), "options.gamma", "must be", invalid},
		{"gamma a string", options(`"gamma":"1"`), "options.gamma", "must be a number, got a string", invalid},
		{"aspects null", options(`"aspects":null`), "options.aspects", "got null", invalid},
		{"aspects a list", options(`"aspects":["rudeness"]`), "options.aspects", "must be true or false, got a list", invalid},
		{"unknown combination", options(`"combination":"max"`), "options.combination", "min, sum, lexicographic", invalid},
		{"empty combination", options(`"combination":""`), "options.combination", "is empty", invalid},
		{"weights null", options(`"weights":null`), "options.weights", "must be an object, got null", invalid},
		{"weights a list", options(`"weights":[1]`), "options.weights", "must be an object", invalid},
		{"weight null", options(`"weights":{"a":null}`), "options.weights.a", "got null", invalid},
		{"weight a string", options(`"weights":{"a":"1"}`), "options.weights.a", "must be a number, got a string", invalid},
		{"weight NaN", options(`"weights":{"a":NaN}`), "options.weights.a", "not valid JSON", invalid},
		{"weight huge", options(`"weights":{"a":1e999}`), "options.weights.a", "in the range of a float64", invalid},
		{"weight negative", options(`"weights":{"a":-1}`), "options.weights", `the weight of "a" is -1`, invalid},
		{"weight twice", options(`"weights":{"a":1,"a":1}`), "options.weights.a", "is given twice", invalid},
		{"too many weights", options(`"weights":{` + strings.Join(manyWeights(17), ",") + `}`), "options.weights", "more than 16", invalid},
		{"tokenizer null", options(`"tokenizer":null`), "options.tokenizer", "got null", invalid},
		{"tokenizer without dense", options(`"tokenizer":"assay"`), "options.tokenizer", "set options.dense", invalid},
		{"dense without tokens", options(`"dense":"last"`), "responses[0]", "needs the tokens", invalid},
		{"tokens without dense", item(`"response":"a","token_offsets":[[0,1]]`), "responses[0].token_offsets", "without options.dense", invalid},
		{"no tokens without dense", item(`"response":"a","token_offsets":[]`), "responses[0].token_offsets", "without options.dense", invalid},
		{"tokens of messages", item(`"messages":[],"token_offsets":[[0,1]]`), "responses[0].token_offsets", "omit them with messages", invalid},
		{"tokens of instances", item(`"token_offsets":[],"instances":["a"]`), "responses[0].token_offsets", "omit them with instances", invalid},
		{"dense instances", `{"responses":[{"instances":["a"]}],"options":{"dense":"last","tokenizer":"assay"}}`, "responses[0]", "give response", invalid},
		{"tokens null", item(`"response":"a","token_offsets":null`), "responses[0].token_offsets", "got null", invalid},
		{"tokens flat", item(`"response":"a","token_offsets":[0,1]`), "responses[0].token_offsets[0]", "must be a list, got a number", invalid},
		{"token of one number", item(`"response":"a","token_offsets":[[0,1],[1]]`), "responses[0].token_offsets[1]", "has 1 numbers", invalid},
		{"token of three numbers", item(`"response":"a","token_offsets":[[0,1,2]]`), "responses[0].token_offsets[0]", "has 3 numbers", invalid},
		{"token of a fraction", item(`"response":"a","token_offsets":[[0,0.5]]`), "responses[0].token_offsets[0][1]", "an integer", invalid},
		{"bomb instead of the object", deep(100_000), "", "must be an object, got a list", invalid},
		{"bomb instead of a response", item(`"response":` + deep(100_000)), "responses[0].response", "must be a string", invalid},
		{"bomb in metadata", item(`"response":"a","metadata":` + deep(100_000)), "responses[0].metadata", "nested deeper than 100", invalid},
		{"bomb in an unknown field", `{"x":` + strings.Repeat(`{"a":`, 5000), "x", "nested deeper than 100", invalid},
		{"open bomb", `{"x":` + strings.Repeat("[", 1_000_000), "x", "nested deeper than 100", invalid},
		{"too many", `{"responses":[` + strings.Repeat(`{"response":"a"},`, 10_000) + `{"response":"a"}]}`, "responses", "more than 8192 responses", tooLarge},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			req, err := DecodeRequest([]byte(test.body), Limits{})
			var input *rewardmodel.InputError
			if !errors.As(err, &input) {
				t.Fatalf("got %+v and error %v, want an *InputError", req, err)
			}
			if input.Kind != test.kind || input.Field != test.field || !strings.Contains(input.Message, test.message) {
				t.Errorf("got kind %v, field %q, message %q", input.Kind, input.Field, input.Message)
			}
			if len(err.Error()) > 300 {
				t.Errorf("the message has %d bytes: %.100s...", len(err.Error()), err)
			}
		})
	}
}

func TestDecodeRequest(t *testing.T) {
	body := `{"responses":[
		{"id":"a","prompt":"p","response":"NUL \u0000 and \ud83d\ude00","metadata": {"deep":[[1.0]]} ,"new":[{"x":null}]},
		{"messages":[{"role":"user","content":"q","name":"n"},{"role":"assistant","content":""}]},
		{"instances":[]}],
		"model":"m","options":{"reward":"logit","aggregate":"topk","offset_unit":"utf16","instances":false,"top_k":2,"reasoning":"score"},"later":null}`
	got, err := DecodeRequest([]byte(body), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	want := rewardmodel.Request{
		Responses: []rewardmodel.Item{
			{ID: "a", Prompt: "p", Response: new("NUL \x00 and 😀"), Metadata: []byte(`{"deep":[[1.0]]}`)},
			{Messages: []rewardmodel.Message{{Role: "user", Content: "q"}, {Role: "assistant"}}},
			{Instances: []string{}},
		},
		Model: "m",
		Options: rewardmodel.Options{
			Reward: rewardmodel.RewardLogit, Aggregate: rewardmodel.AggregateTopK, OffsetUnit: rewardmodel.OffsetUTF16,
			Reasoning: rewardmodel.ReasoningScore, Instances: new(false), TopK: new(2),
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestDecodeLimits(t *testing.T) {
	body := func(n int) []byte {
		return []byte(`{"responses":[` + strings.TrimSuffix(strings.Repeat(`{"response":"a"},`, n), ",") + `]}`)
	}
	if _, err := DecodeRequest(body(rewardmodel.DefaultMaxResponses), Limits{}); err != nil {
		t.Errorf("as many responses as are allowed: %v", err)
	}
	if _, err := DecodeRequest(body(3), Limits{MaxResponses: 2}); err == nil || !strings.Contains(err.Error(), "more than 2") {
		t.Errorf("a lower limit: got %v", err)
	}
	nested := func(n int) []byte {
		return fmt.Appendf(nil, `{"responses":[{"response":"a"}],"x":%s1%s}`, strings.Repeat("[", n), strings.Repeat("]", n))
	}
	if _, err := DecodeRequest(nested(9), Limits{MaxDepth: 10}); err != nil {
		t.Errorf("depth 10 of 10: %v", err)
	}
	if _, err := DecodeRequest(nested(10), Limits{MaxDepth: 10}); err == nil {
		t.Error("depth 11 of 10: no error")
	}
}

func TestDecodeItem(t *testing.T) {
	it, err := DecodeItem([]byte(`{"id":"a","response":"b","metadata":null}` + "\n"))
	if want := (rewardmodel.Item{ID: "a", Response: new("b"), Metadata: []byte("null")}); err != nil || !reflect.DeepEqual(it, want) {
		t.Errorf("got %+v, %v", it, err)
	}
	for line, field := range map[string]string{
		``:                            "",
		`{}`:                          "",
		`{"response":1}`:              "response",
		`{"instances":["a",null]}`:    "instances[1]",
		`{"messages":[{"role":"a"}]}`: "messages[0].content",
		`{"response":"a"} {}`:         "",

		`{"messages":[],"token_offsets":[]}`: "token_offsets",
	} {
		_, err := DecodeItem([]byte(line))
		var input *rewardmodel.InputError
		if !errors.As(err, &input) || input.Field != field || input.Kind != rewardmodel.KindInvalid {
			t.Errorf("%s: got %#v", line, err)
		}
	}
}

// Any accepted request is valid JSON and has something to score.
func FuzzDecodeRequest(f *testing.F) {
	f.Add([]byte(`{"responses":[{"response":"a","metadata":{"a":[1]}}],"options":{"top_k":1}}`))
	f.Add([]byte(`{"responses":[{"prompt":"p","response":"a"}],"options":{"aspects":true,"combination":"sum","weights":{"a":0,"b":1e308}}}`))
	f.Add([]byte(`{"responses":[{"messages":[{"role":"assistant","content":"\ud83d\ude00"}]}]}`))
	f.Add([]byte(`{"responses":[{"instances":["\ud800"]}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := DecodeRequest(body, Limits{})
		checkDecoded(t, body, err)
		if err == nil && req.Validate() != nil {
			t.Errorf("accepted %+v, which is not valid", req)
		}
	})
}

func FuzzDecodeItem(f *testing.F) {
	f.Add([]byte(`{"id":"a","response":"b\u0000","metadata":1}`))
	f.Add([]byte(`{"messages":[{"role":"user","content":"a","content":"b"}]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		it, err := DecodeItem(line)
		checkDecoded(t, line, err)
		if err == nil && it.Metadata != nil && !it.Metadata.IsValid() {
			t.Errorf("metadata %q", it.Metadata)
		}
	})
}

func checkDecoded(t *testing.T, input []byte, err error) {
	t.Helper()
	if err == nil {
		if !json.Valid(input) {
			t.Errorf("accepted broken JSON %q", input)
		}
		return
	}
	var wrong *rewardmodel.InputError
	if !errors.As(err, &wrong) || wrong.Message == "" {
		t.Errorf("got %#v, want an *InputError with a message", err)
	}
}

func TestSyntaxError(t *testing.T) {
	input := []byte("{\"a\":[{\"b\":\"\xff\"}]}")
	_, err := jsontext.NewDecoder(bytes.NewBuffer(input)).ReadValue()
	if got := SyntaxError(input, err); got.Field != "a[0].b" || got.Kind != rewardmodel.KindInvalid || !strings.Contains(got.Message, "not valid UTF-8") {
		t.Errorf("got %#v", got)
	}
	if got := FieldPath("/items/3/messages/0/role"); got != "items[3].messages[0].role" {
		t.Errorf("got %q", got)
	}
}

func manyWeights(n int) (members []string) {
	for i := range n {
		members = append(members, fmt.Sprintf(`"a%d":1`, i))
	}
	return members
}
