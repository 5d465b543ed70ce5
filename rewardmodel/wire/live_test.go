package wire

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"assay/rewardmodel"
)

func TestDecodeLiveMessage(t *testing.T) {
	gamma := 0.5
	for line, want := range map[string]LiveMessage{
		`{"open":{}}`:           {Open: &rewardmodel.LiveRequest{}},
		`{"text":""}`:           {Text: new("")},
		` {"text":"é\n\u0041"}`: {Text: new("é\nA")},
		`{"close":{}}`:          {Close: true},
		`{"close":{"x":[1]}}`:   {Close: true},
		`{"later":1,"text":"a"}`: {
			Text: new("a"),
		},
		`{"open":{"id":"a","prompt":"p","model":"m","provisional_tokens":8,"later":null,"options":{"reward":"logit","dense":"last","tokenizer":"m","gamma":0.5}}}`: {
			Open: &rewardmodel.LiveRequest{ID: "a", Prompt: "p", Model: "m", Provisional: 8, Options: rewardmodel.Options{
				Reward: rewardmodel.RewardLogit, Dense: rewardmodel.DenseLast, Tokenizer: "m", Gamma: &gamma,
			}},
		},
	} {
		got, err := DecodeLiveMessage([]byte(line), Limits{})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v (%v), want %+v", line, got, err, want)
		}
	}
}

func TestDecodeLiveMessageRejects(t *testing.T) {
	for line, field := range map[string]string{
		``:                                          "",
		`{}`:                                        "",
		`{"later":1}`:                               "",
		`[]`:                                        "",
		`{"text":"a"}{}`:                            "",
		`{"text":"a`:                                "text",
		`{"text":null}`:                             "text",
		`{"text":1}`:                                "text",
		`{"text":"\ud800"}`:                         "text",
		"{\"text\":\"\xff\"}":                       "text",
		`{"text":"","text":""}`:                     "text",
		`{"text":"","close":{}}`:                    "",
		`{"open":{},"text":""}`:                     "",
		`{"close":true}`:                            "close",
		`{"open":null}`:                             "open",
		`{"open":{"id":1}}`:                         "open.id",
		`{"open":{"provisional_tokens":1}}`:         "open.provisional_tokens",
		`{"open":{"provisional_tokens":-8}}`:        "open.provisional_tokens",
		`{"open":{"provisional_tokens":8.5}}`:       "open.provisional_tokens",
		`{"open":{"options":{"reward":"x"}}}`:       "open.options.reward",
		`{"open":{"options":{"reward":""}}}`:        "open.options.reward",
		`{"open":{"options":{"rewards":"x"}}}`:      "open.options.rewards",
		`{"open":{"options":{"top_k":0}}}`:          "open.options.top_k",
		`{"open":{"options":{"weights":{"a":-1}}}}`: "open.options.weights",
		`{"open":{"options":{"dense":"last"}}}`:     "open.options.dense",
		`{"open":{"options":{"tokenizer":"m"}}}`:    "open.options.tokenizer",
		`{"open":{"options":{"reward":"raw","reward":"logit"}}}`: "open.options.reward",
	} {
		m, err := DecodeLiveMessage([]byte(line), Limits{})
		var input *rewardmodel.InputError
		if !errors.As(err, &input) || input.Field != field || input.Message == "" {
			t.Errorf("%s: got %+v, error %v, want one of the field %q", line, m, err, field)
		}
	}
}

func FuzzDecodeLiveMessage(f *testing.F) {
	f.Add([]byte(`{"open":{"id":"a","prompt":"p","options":{"top_k":1,"weights":{"a":1}},"provisional_tokens":8}}`))
	f.Add([]byte(`{"text":"\ud83d\ude00"}`))
	f.Add([]byte(`{"close":{}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := DecodeLiveMessage(line, Limits{})
		checkDecoded(t, line, err)
		if err == nil && m.Open != nil && m.Open.Validate() != nil {
			t.Errorf("accepted %+v, which is not valid", m.Open)
		}
	})
}

func TestAppendLive(t *testing.T) {
	check := func(got []byte, err error, want string) {
		t.Helper()
		if err != nil || string(got) != want {
			t.Errorf("got %s (%v)\nwant %s", got, err, want)
		}
	}
	event := rewardmodel.LiveEvent{
		Utterance: rewardmodel.LiveUtterance{Index: 2, Start: 3, End: 8, Bytes: 99, Text: "a\xffb", Violation: .75},
		Violation: .875, Reward: .25, Stop: true,
	}
	const utterance = `{"utterance":{"index":2,"start":3,"end":8,"text":"a�b","violation":0.75`
	const rest = `},"violation":0.875,"reward":0.25,"compliant":false,"stop":true}`
	got, err := AppendLiveEvent([]byte("x"), event)
	check(got, err, "x"+utterance+rest)
	event.Utterance.Provisional = true
	got, err = AppendLiveEvent(nil, event)
	check(got, err, utterance+`,"provisional":true`+rest)
	got, err = AppendLiveEvent(nil, rewardmodel.LiveEvent{Reset: true})
	check(got, err, `{"reset":{}}`)
	got, err = AppendLiveEvent(nil, rewardmodel.LiveEvent{Reset: true, Utterance: rewardmodel.LiveUtterance{Index: 3}})
	check(got, err, `{"reset":{"index":3}}`)
	got, err = AppendLiveResult(nil, rewardmodel.ScoreResponse{
		Model: rewardmodel.ModelInfo{Name: "m", Version: "v"}, OffsetUnit: rewardmodel.OffsetUTF8, Results: []rewardmodel.Result{{ID: "a"}},
	})
	check(got, err, `{"result":{"id":"a","reward":0,"compliant":false,"violation":0,"threshold":0,"witness":null,"truncated":false,"empty":false},"model":{"name":"m","version":"v"},"offset_unit":"utf8"}`)
	got, err = AppendLiveError(nil, "idle", `no "text"`, "")
	check(got, err, `{"error":{"code":"idle","message":"no \"text\""}}`)
	got, err = AppendLiveError(nil, "invalid", "m", "open.id")
	check(got, err, `{"error":{"code":"invalid","message":"m","field":"open.id"}}`)
	event.Reward = math.NaN()
	if got, err := AppendLiveEvent([]byte("x"), event); err == nil || string(got) != "x" {
		t.Errorf("got %s (%v) for NaN", got, err)
	}
}
