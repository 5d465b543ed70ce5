package chat_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"assay/api/chat"
	"assay/segmenter"
)

func texts(s string, spans []segmenter.Span) []string {
	out := make([]string, len(spans))
	for i, span := range spans {
		out[i] = s[span.Start:span.End]
	}
	return out
}

func TestTurns(t *testing.T) {
	chatML := "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi 🙂<|im_end|>\n<|im_start|>assistant\n"
	history := "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nBefore.<|im_end|>\n<|im_start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\n"
	for name, c := range map[string]struct {
		query, prompt string
		want          []string
	}{
		"nothing":              {"", "", []string{""}},
		"plain text":           {" Hello. ", "", []string{"Hello."}},
		"plain text, prompt":   {"What? Hello.</s>", "What?", []string{"Hello."}},
		"ChatML":               {chatML + "Hello. Bye.<|im_end|>\n", "", []string{"Hello. Bye."}},
		"ChatML, prompt":       {chatML + "Hello. Bye.<|im_end|>\n", chatML, []string{"Hello. Bye."}},
		"padding":              {"<|endoftext|><|endoftext|>" + chatML + "Hello.<|im_end|><|endoftext|><|endoftext|>", chatML, []string{"Hello."}},
		"raw prompt":           {chatML + "Hello.<|im_end|>", "Hi 🙂", []string{"Hello."}},
		"prompt inside header": {chatML + "Hello.<|im_end|>", "a", []string{"Hello."}},
		"another prompt":       {chatML + "Hello.<|im_end|>", "Nothing of that", []string{"Hello."}},
		"cut prompt":           {chatML[3:] + "Hello.", chatML, []string{"Hello."}},
		"cut plain prompt":     {strings.Repeat("word ", 20) + "Hello.", "First " + strings.Repeat("word ", 20), []string{"Hello."}},
		"think":                {chatML + "<think>\nHm.</think>\nHello.<|im_end|>", chatML + "<think>\n", []string{"Hm.</think>\nHello."}},
		"empty answer":         {chatML + "<|im_end|>", chatML, []string{""}},
		"no answer yet":        {chatML, "", []string{""}},
		"history":              {history + "Now.<|im_end|>", "", []string{"Now."}},
		"history, prompt":      {history + "Now.<|im_end|>", history, []string{"Now."}},
		"several turns": {
			chatML + "One.<|im_end|>\n<|im_start|>tool\n42<|im_end|>\n<|im_start|>assistant\nTwo.<|im_end|>", chatML, []string{"One.", "Two."},
		},
		"forged second answer": {chatML + "Bad.<|im_end|>\n<|im_start|>assistant\nGood.<|im_end|>", "", []string{"Bad.", "Good."}},
		"token in the middle":  {chatML + "One.<|endoftext|>Two.", chatML, []string{"One.<|endoftext|>Two."}},
		"literal of another":   {chatML + "Write [INST] before it.<|im_end|>", chatML, []string{"Write [INST] before it."}},
		"only a user":          {"<|im_start|>user\nHi<|im_end|>", "", []string{"user\nHi"}},
		"Llama 3": {
			"<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nHello.<|eot_id|>", "", []string{"Hello."},
		},
		"Llama 4":   {"<|begin_of_text|><|header_start|>user<|header_end|>\n\nHi<|eot|><|header_start|>assistant<|header_end|>\n\nHello.<|eot|>", "", []string{"Hello."}},
		"Llama 2":   {"<s>[INST] <<SYS>>\nx\n<</SYS>>\n\nHi [/INST] Hello. </s>", "", []string{"Hello."}},
		"Mistral":   {"<s>[INST] Hi [/INST] Before.</s>[INST] And? [/INST] Now.</s>", "", []string{"Now."}},
		"Gemma":     {"<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nHello.<end_of_turn>\n", "", []string{"Hello."}},
		"Phi 3":     {"<|user|>\nHi<|end|>\n<|assistant|>\nHello.<|end|>\n<|endoftext|>", "", []string{"Hello."}},
		"Phi 4":     {"<|im_start|>user<|im_sep|>Hi<|im_end|><|im_start|>assistant<|im_sep|>Hello.<|im_end|>", "", []string{"Hello."}},
		"Zephyr":    {"<|system|>\nx</s>\n<|user|>\nHi</s>\n<|assistant|>\nHello.</s>", "", []string{"Hello."}},
		"GLM":       {"[gMASK]<sop><|user|>\nHi<|assistant|>\nHello.<|user|>", "", []string{"Hello."}},
		"DeepSeek":  {"<｜begin▁of▁sentence｜><｜User｜>Hi<｜Assistant｜>Hello.<｜end▁of▁sentence｜>", "", []string{"Hello."}},
		"Command R": {"<BOS_TOKEN><|START_OF_TURN_TOKEN|><|USER_TOKEN|>Hi<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>Hello.<|END_OF_TURN_TOKEN|>", "", []string{"Hello."}},
		"Kimi":      {"<|im_user|>user<|im_middle|>Hi<|im_end|><|im_assistant|>assistant<|im_middle|>Hello.<|im_end|>", "", []string{"Hello."}},
		"gpt-oss": {
			"<|start|>user<|message|>Hi<|end|><|start|>assistant<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hello.<|return|>",
			"<|start|>user<|message|>Hi<|end|><|start|>assistant", []string{"Hello."},
		},
		"NeMo":               {"<extra_id_0>System\n\n<extra_id_1>User\nHi\n<extra_id_1>Assistant\nHello.\n<extra_id_2>quality:4", "", []string{"Hello."}},
		"Vicuna":             {"A chat. USER: Hi ASSISTANT: Hello.</s>", "", []string{"Hello."}},
		"Human":              {"\n\nHuman: Hi\n\nAssistant: Hello.\n\nHuman: forged\n\nAssistant: Good.", "", []string{"Hello.\n\nHuman: forged\n\nAssistant: Good."}},
		"plain, raw prompt":  {"User: Hi\nAssistant: Hello.", "Hi", []string{"Hello."}},
		"Assistant in prose": {"The Assistant: a film.", "", []string{"The Assistant: a film."}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, texts(c.query, chat.Turns(c.query, c.prompt)))
		})
	}
}

func TestContinuation(t *testing.T) {
	for text, want := range map[string][]string{
		"":                 {""},
		"Hello.":           {"Hello."},
		"Hello.<|im_end|>": {"Hello."},
		"One.<|im_end|>\n<|im_start|>tool\n42<|im_end|>\n<|im_start|>assistant\nTwo.<|im_end|>": {"One.", "Two."},
	} {
		require.Equal(t, want, texts(text, chat.Continuation(text)), text)
	}
}

func TestTemplated(t *testing.T) {
	for text, want := range map[string]bool{
		"":                         false,
		"Hello.":                   false,
		"Write [INST] before it.":  false,
		"Hi <|im_start|>user\n":    false,
		"<|im_start|>user\nHi":     true,
		"<s> [INST] Hi [/INST]":    true,
		"[gMASK]<sop><|user|>\nHi": true,
		"<BOS_TOKEN><|START_OF_TURN_TOKEN|><|USER_TOKEN|>Hi": true,
		"<|begin_of_text|><|start_header_id|>user":           true,
		"<|endoftext|>": false,
	} {
		require.Equal(t, want, chat.Templated(text), text)
	}
}

// Megabytes of tokens, headers or white space take no longer than other text.
func TestTurnsIsLinear(t *testing.T) {
	const bytes = 2 << 20
	for _, unit := range []string{"<|a|>", " ", "</s> ", "<|im_start|>assistant", "<|im_start|>", "[INST][/INST]", "<|", "Assistant:", "User: ", "\n", "<|user|><think>", "<|assistant|><think></think>a"} {
		query := strings.Repeat(unit, bytes/len(unit))
		chat.Turns(query, "")
		chat.Turns(query, query[:len(query)/2])
		chat.Turns(query, query[1:]+"x"+query[:len(query)/3])
		chat.Continuation(query)
		chat.Templated(query)
		chat.Context(query)
	}
}

func FuzzTurns(f *testing.F) {
	f.Add("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n", "Hi")
	f.Add("<s>[INST] Hi [/INST] Hello. </s>", "")
	f.Add("<｜User｜>é<｜Assistant｜>🙂<｜end▁of▁sentence｜>", "é")
	f.Add("USER: a ASSISTANT: b", "a")
	f.Add("<||><|<|x|>|>", "<")
	f.Fuzz(func(t *testing.T, query, prompt string) {
		for _, spans := range [][]segmenter.Span{chat.Turns(query, prompt), chat.Continuation(query)} {
			if len(spans) == 0 {
				t.Fatal("no turn")
			}
			end := 0
			for _, s := range spans {
				if s.Start < end || s.End < s.Start || s.End > len(query) {
					t.Fatalf("spans %v of %d bytes", spans, len(query))
				}
				end = s.End
				part := query[s.Start:s.End]
				if utf8.ValidString(query) && utf8.ValidString(prompt) && !utf8.ValidString(part) {
					t.Fatalf("%q is cut inside of a character", part)
				}
				if part != strings.TrimSpace(part) {
					t.Fatalf("%q has white space at its ends", part)
				}
			}
		}
		chat.Templated(query)
		if context := chat.Context(query); len(context) > len(query) {
			t.Errorf("the context %q is longer than %q", context, query)
		}
	})
}
