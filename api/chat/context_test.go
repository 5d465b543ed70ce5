package chat

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestContext(t *testing.T) {
	for name, c := range map[string]struct{ prompt, want string }{
		"nothing":              {"", ""},
		"text":                 {" Why is that?\n", "Why is that?"},
		"special tokens only":  {"<s><|begin_of_text|>", ""},
		"plain header":         {"Human: Why?\n\nAssistant:", "Why?"},
		"a word like a header": {"User: is a word.", "User: is a word."},
		"ChatML":               {"<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n", "Be brief.\nWhy?"},
		"earlier answers":      {"<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n", "Hi\nHello.\nWhy?"},
		"Llama 2":              {"<s>[INST] Why? [/INST]", "Why?"},
		"Gemma":                {"<bos><start_of_turn>user\nWhy?<end_of_turn>\n<start_of_turn>model\n", "Why?"},
		"Kimi":                 {"<|im_user|>user<|im_middle|>Why?<|im_end|><|im_assistant|>assistant<|im_middle|>", "Why?"},
		"Phi 3":                {"<|user|>\nWhy?<|end|>\n<|assistant|>\n", "Why?"},
		"a word on a line":     {"<|user|>\nWhy\nnot?<|end|>\n<|assistant|>\n", "Why\nnot?"},
		"NeMo":                 {"<extra_id_0>System\n\n<extra_id_1>User\nWhy?\n<extra_id_1>Assistant\n", "Why?"},
		"reasoning begins":     {"<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n<think>\n", "Why?"},
		"no reasoning":         {"<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", "Why?"},
		"DeepSeek":             {"<｜begin▁of▁sentence｜>Be brief.<｜User｜>Why?<｜Assistant｜><think>\n", "Be brief.\nWhy?"},
		"earlier reasoning":    {"<|im_start|>assistant\n<think>\nHm.\n</think>\n\nSo.<|im_end|>\n<|im_start|>user\nWhat is <think>?<|im_end|>\n", "So.\nWhat is <think>?"},
		"GLM":                  {"[gMASK]<sop><|system|>\nBe brief.<|user|>\nWhy?<|assistant|>\n", "Be brief.\nWhy?"},
		"Command R":            {"<BOS_TOKEN><|START_OF_TURN_TOKEN|><|USER_TOKEN|>Why?<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", "Why?"},
		"cut off at the start": {"hat is it?<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>", "hat is it?\nWhy?"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, Context(c.prompt)) })
	}
}
